"""Maze environments for other libraries: Gymnasium's own check, and Stable-Baselines3 trains on one."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_gym.env import GymEnv
from maze_kernel.errors import SpaceError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.to_gymnasium import to_gymnasium
from maze_wrappers.discretize_actions import DiscretizeActions
from maze_wrappers.no_dict import NoDictSpaces
from maze_wrappers.observation_normalization import ObservationNormalization
from maze_wrappers.observation_stack import ObservationStack
from maze_wrappers.options import (
    DiscretizeActionsOptions,
    NoDictSpacesOptions,
    ObservationNormalizationOptions,
    ObservationStackOptions,
    TimeLimitOptions,
)
from maze_wrappers.time_limit import TimeLimit


def cutting(**options):
    return make_env(CuttingOptions(version="flat", max_episode_steps=20, **options))


def running():
    return ObservationNormalization(ObservationNormalizationOptions(statistics="running", clip_range=(-5.0, 5.0)))


CASES = {
    "cartpole": lambda: to_gymnasium(GymEnv(gymnasium.make("CartPole-v1"))),
    "pendulum, wrapped": lambda: to_gymnasium(
        TimeLimit(GymEnv(gymnasium.make("Pendulum-v1")), TimeLimitOptions(max_episode_steps=9)),
        transforms=[DiscretizeActions(DiscretizeActionsOptions()), ObservationStack(ObservationStackOptions(n=3))],
    ),
    "cutting": lambda: to_gymnasium(cutting()),
    "cutting, one key": lambda: to_gymnasium(cutting(), transforms=[NoDictSpaces(NoDictSpacesOptions())]),
    "cutting, drawn": lambda: to_gymnasium(cutting(render_mode="rgb_array"), render_mode="rgb_array"),
}


@pytest.mark.parametrize("name", CASES)
def test_gymnasium_finds_nothing_wrong(name):
    env = CASES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The environments were made by hand, so there is no registered spec.
        warnings.filterwarnings("ignore", message=".*not initialized with `gym.make`.*|.*spec.*|.*infinity.*|.*Box.*")
        check_env(env, skip_render_check=env.render_mode is None)
    env.close()


def test_spaces_with_one_key_stand_alone_and_others_stay_dicts():
    env = CASES["cutting"]()
    assert isinstance(env.observation_space, spaces.Dict)
    assert isinstance(env.action_space, spaces.Dict)
    env = CASES["cutting, one key"]()
    assert isinstance(env.observation_space, spaces.Box)
    assert isinstance(env.action_space, spaces.MultiDiscrete)


def test_what_is_handed_out_is_not_overwritten():
    class Reuses(FlatEnv):
        structured_spaces = flat_spaces(spaces.Dict(x=spaces.Box(0, 9)), spaces.Dict(a=spaces.Discrete(2)))
        buffer = np.zeros(1, np.float32)

        def reset(self, *, seed=None, options=None):
            self.buffer[0] = 0
            return {"x": self.buffer}, {}

        def step(self, action):
            assert type(action["a"]) is int
            self.buffer[0] += 1
            return {"x": self.buffer}, 1.0, False, False, {}

    env = to_gymnasium(Reuses())
    first, _ = env.reset()
    second, *_ = env.step(np.int64(1))
    assert (first.tolist(), second.tolist()) == ([0.0], [1.0])


def test_structured_environments_are_refused():
    with pytest.raises(SpaceError, match="select, cut"):
        to_gymnasium(make_env(CuttingOptions(version="structured")))


@pytest.mark.slow
def test_stable_baselines3_trains_on_a_wrapped_maze_environment():
    import stable_baselines3

    env = to_gymnasium(cutting(), transforms=[NoDictSpaces(NoDictSpacesOptions()), running()])
    model = stable_baselines3.PPO("MlpPolicy", env, n_steps=256, seed=0, device="cpu")
    model.learn(512)
    observation, _ = env.reset(seed=1)
    rewards = []
    for _ in range(20):
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
    assert truncated
    assert not terminated
    assert np.isfinite(rewards).all()
