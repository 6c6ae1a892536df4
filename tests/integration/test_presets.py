"""The presets of the plugins: those of trainers are the examples', and each can be trained with."""

from pathlib import Path

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


def test_vectors_are_normalised_and_memories_are_carried(kernel):
    made = assembly(kernel, {"use": "gym", "id": "CartPole-v1"}, ["vector-obs", "recurrent"])
    assert [wrapper.use for wrapper in made.experiment.wrappers] == ["observation-normalization"]
    assert carries_state(made.make_model())
