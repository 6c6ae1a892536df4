"""Gymnasium environments made by a user's factory or import path are adapted wherever they are made."""

import threading

import gymnasium
import numpy as np
import pytest

from maze_gym.plugin import maze_envs
from maze_kernel.components import load_attribute
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.errors import EnvError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.env_factory import adapted

SMALL = {
    "seed": 3,
    "vector.n_envs": 2,
    "evaluation.n_episodes": 2,
    "trainer.epoch_length": 1,
    "trainer.n_rollout_steps": 32,
    "trainer.batch_size": 32,
}
MODULE = """
import gymnasium

def make_env(*, max_episode_steps: int = 7):
    return gymnasium.make("CartPole-v1", max_episode_steps=max_episode_steps)
"""


@pytest.fixture(autouse=True)
def my_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_gym_envs.py").write_text(MODULE)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sequential", "subprocess"])
def test_a_factory_from_python_trains_and_plays(mode):
    calls = []

    def make_env():
        calls.append(1)
        return gymnasium.make("CartPole-v1")

    overrides = {**SMALL, "vector.mode": mode}
    context = RunContext(env=make_env, overrides=overrides, silent=True)
    assert calls == []
    context.train(n_epochs=1)
    named = RunContext(env="CartPole-v1", overrides=overrides, silent=True)
    named.train(n_epochs=1)
    assert context.rollout(n_episodes=2).episodes == named.rollout(n_episodes=2).episodes
    assert context.compute_action(np.zeros(4, np.float32)) in (0, 1)


class Countdown(gymnasium.Env):
    """Ends after as many steps as its number says."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, number=5):
        self.number = number

    def reset(self, *, seed=None, options=None):
        self.left = self.number
        return np.float32([self.left]), {}

    def step(self, action):
        self.left -= 1
        return np.float32([self.left]), 1.0, self.left == 0, False, {}


FORMS = {
    "a class": lambda: {"use": "gym", "id": Countdown},
    "a class with arguments": lambda: {"use": "gym", "id": Countdown, "kwargs": {"number": 5}},
    "a function": lambda: {"use": "gym", "id": lambda: Countdown()},
    "an instance": lambda: {"use": "gym", "id": Countdown()},
    "the class alone": lambda: Countdown,
    "the instance alone": lambda: Countdown(),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_environment_is_taken_in_every_form(form):
    context = RunContext(env=FORMS[form](), overrides={**SMALL, "vector.mode": "sequential"}, silent=True)
    context.train(n_epochs=1)
    assert [episode.length for episode in context.rollout(n_episodes=2).episodes] == [5, 5]


def test_environments_of_a_batch_are_copies_of_the_instance_which_stays_as_it_is():
    mine = Countdown()
    mine.reset()
    table = {"use": "gym", "id": mine, "max_episode_steps": 4}
    data = {"name": "copies", "env": table, "trainer": {"use": "ppo"}, "wrappers": []}
    kernel = Kernel.installed()
    envs = Assembly(experiment_from_mapping(data, kernel=kernel), kernel).make_vector_env(3)
    envs.reset([[1], [2], [3]])
    tick = envs.step({"0": {"action": np.zeros(3, np.int64)}})
    assert tick.groups["0"].observation["observation"].tolist() == [[4.0]] * 3
    assert mine.left == 5


def test_an_instance_that_cannot_be_copied_is_made_again_or_refused():
    registered = gymnasium.make("CartPole-v1")
    registered.unwrapped.lock = threading.Lock()
    context = RunContext(env=registered, overrides=SMALL, silent=True)
    assert context.rollout(n_episodes=2, policy="random").summary["n_failed"] == 0
    homemade = Countdown()
    homemade.lock = threading.Lock()
    with pytest.raises(EnvError, match="cannot be copied") as refusal:
        RunContext(env=homemade, overrides=SMALL, silent=True).train(n_epochs=1)
    assert "give its class" in refusal.value.help


def test_a_factory_draws_as_it_was_made_to(tmp_path):
    context = RunContext(
        env=lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array"), overrides=SMALL, silent=True
    )
    context.rollout(n_episodes=1, policy="random", video_dir=tmp_path / "films")
    assert [film.stat().st_size > 0 for film in (tmp_path / "films").iterdir()] == [True]


@pytest.mark.parametrize("mode", ["auto", "sequential", "subprocess"])
def test_an_import_path_may_make_a_gymnasium_environment(mode):
    kernel = Kernel.installed()
    data = {
        "name": "foreign",
        "env": {"use": "my_gym_envs:make_env", "max_episode_steps": 3},
        "vector": {"n_envs": 2, "mode": mode},
        "wrappers": [{"use": "reward-scaling", "scale": 0.5}],
        "trainer": {"use": "ppo"},
    }
    envs = Assembly(experiment_from_mapping(data, kernel=kernel), kernel).make_vector_env(2)
    try:
        envs.reset([[1], [2]])
        ticks = [envs.step({"0": {"action": np.array([0, 1])}}) for _ in range(3)]
        assert ticks[-1].truncated.tolist() == [True, True]
        assert ticks[-1].reward.tolist() == [0.5, 0.5]
    finally:
        envs.close()


def test_what_nobody_knows_is_refused():
    context = RunContext(env=dict, overrides=SMALL, silent=True)
    with pytest.raises(EnvError, match="no StructuredEnv") as caught:
        context.train(n_epochs=1)
    assert "dict" in str(caught.value)


def test_the_component_names_a_function_that_knows_gymnasium_only():
    (component,) = (component for component in maze_envs() if component.name == "gym")
    adapt = load_attribute(component.adapts)
    assert adapt("a string") is None
    env = adapt(gymnasium.make("CartPole-v1"))
    assert adapted(env, ()) is env
