"""The presets of the plugins: those of trainers are the examples', and each can be trained with."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tomli
from gymnasium import spaces

from maze_kernel.config import experiment_from_mapping
from maze_kernel.config.presets import preset_table
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.models.recurrence import carries_state
from maze_runtime.run.assembly import Assembly

REPOSITORY = Path(__file__).parents[2]
INSTALLED = Kernel.installed()
TABLES = {
    entry.component.name: preset_table(INSTALLED.catalog, entry)
    for entry in INSTALLED.catalog.entries("preset")
    if entry.plugin.name.startswith("maze-")
}
TUNED = [name for name, table in TABLES.items() if "trainer" in table]


class Screen(FlatEnv):
    structured_spaces = flat_spaces(
        spaces.Dict(observation=spaces.Box(0, 255, (96, 128, 3), np.uint8)), spaces.Dict(action=spaces.Discrete(2))
    )

    def reset(self, *, seed=None, options=None):
        return {"observation": np.full((96, 128, 3), 200, np.uint8)}, {}

    def step(self, action):
        return self.reset()[0], 1.0, False, False, {}


def test_the_groups_of_old_and_the_tuned_trainers_are_there():
    assert {"vector-obs", "pixel-obs", "recurrent"} <= set(TABLES)
    assert len(TUNED) >= 11


@pytest.mark.parametrize("name", TUNED)
def test_a_tuned_trainer_is_that_of_the_example(name):
    algorithm, _, environment = name.partition("-")
    example = tomli.loads((REPOSITORY / f"examples/{environment}_{algorithm}.toml").read_text())
    assert TABLES[name] == {key: value for key, value in example.items() if key not in ("name", "seed", "env")}


@pytest.mark.parametrize("name", TUNED)
def test_a_tuned_trainer_is_all_that_an_environment_needs(kernel, name):
    ids = {"acrobot": "Acrobot-v1", "pendulum": "Pendulum-v1", "halfcheetah": "Pendulum-v1"}
    env = {"use": "gym", "id": ids.get(name.partition("-")[2], "CartPole-v1")}
    loaded = experiment_from_mapping({"name": "x", "preset": name, "env": env}, kernel=kernel)
    assert loaded.experiment.trainer.use == name.partition("-")[0]


def assembly(kernel, env, preset, **tables):
    data = {"name": "x", "preset": preset, "env": env, "trainer": {"use": "ppo"}, **tables}
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def test_pixels_become_four_small_grey_images_of_bytes(kernel):
    made = assembly(kernel, Screen, "pixel-obs")
    (name,) = made.spaces.observation["0"]
    space = made.spaces.observation["0"][name]
    assert (space.shape, space.dtype) == ((4, 84, 84), np.uint8)
    batch = made.make_vector_env(2)
    tick = batch.reset([[1], [2]])
    assert tick.groups["0"].observation[name].max() == 200
    batch.close()
    assert made.make_model().notes == (f"the model reads {name} (4, 84, 84) as an image",)


class Grid(gymnasium.Env):
    """What an agent of MiniGrid observes."""

    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (7, 7, 3), np.uint8), direction=spaces.Discrete(4), mission=spaces.Text(60)
    )
    action_space = spaces.Discrete(7)

    def reset(self, *, seed=None, options=None):
        image = np.broadcast_to(np.array([10, 5, 2], np.uint8), (7, 7, 3))
        return {"image": image, "direction": 1, "mission": "go to the red ball"}, {}

    def step(self, action):
        return self.reset()[0], 1.0, False, False, {}


def test_worlds_of_minigrid_become_numbers_and_words(kernel):
    made = assembly(kernel, {"use": "gym", "id": Grid}, "minigrid")
    batch = made.make_vector_env(1)
    seen = batch.reset([[1]]).groups["0"].observation
    batch.close()
    assert {name: array.shape for name, array in seen.items()} == {
        "direction": (1,), "image-flatten": (1, 147), "mission": (1, 20)
    }  # fmt: skip
    assert (seen["image-flatten"] == 1.0).all()
    words = TABLES["minigrid"]["env"]["words"]
    assert [words[number - 2] for number in seen["mission"][0] if number] == ["go", "to", "the", "red", "ball"]
    assert made.make_model()


def test_robots_have_observations_and_returns_scaled(kernel):
    made = assembly(kernel, {"use": "gym", "id": "Pendulum-v1"}, "mujoco")
    batch = made.make_vector_env(2, training=True)
    batch.reset([[1], [2]])
    for _ in range(30):
        tick = batch.step({"0": {"action": np.zeros((2, 1), np.float32)}})
    batch.close()
    assert np.abs(tick.reward).max() < 2  # of returns with a deviation of 1, from rewards of −16 … 0
    assert np.abs(tick.groups["0"].observation["observation"]).max() <= 10


def test_vectors_are_normalised_and_memories_are_carried(kernel):
    made = assembly(kernel, {"use": "gym", "id": "CartPole-v1"}, ["vector-obs", "recurrent"])
    assert [wrapper.use for wrapper in made.experiment.wrappers] == ["observation-normalization"]
    assert carries_state(made.make_model())
