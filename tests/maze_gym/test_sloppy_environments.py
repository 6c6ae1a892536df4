"""Environments that return something other than Gymnasium's parts are told which, and what to write instead."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import GymEnv
from maze_kernel.errors import EnvError

OBSERVATION = np.zeros(2, np.float32)


class Sloppy(gymnasium.Env):
    """Returns what it is given."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, at_reset=(OBSERVATION, {}), at_step=(OBSERVATION, 1.0, False, False, {})):
        self.at_reset, self.at_step = at_reset, at_step

    def reset(self, *, seed=None, options=None):
        return self.at_reset

    def step(self, action):
        return self.at_step


class WithoutSeed(Sloppy):
    def reset(self, options=None):
        return self.at_reset


class ForwardsAll(Sloppy):
    def reset(self, **kwargs):
        raise TypeError("of its own")


@pytest.mark.parametrize(
    ("at_reset", "words"),
    [
        (OBSERVATION, ["observation and info", "received: array([0., 0.]", "help: return observation, info"]),
        (None, ["observation and info", "received: None"]),
        ((OBSERVATION, None), ["the info that its reset returned is not a dict", "received: None"]),
        ((OBSERVATION, {}, 1.0), ["observation and info", "received: 3 values"]),
    ],
)
def test_resets(at_reset, words):
    with pytest.raises(EnvError) as caught:
        GymEnv(Sloppy(at_reset)).reset(seed=1)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("at_step", "words"),
    [
        ((OBSERVATION, 1.0, False, {}), ["received: 4 values", "the older Gym had four: divide done"]),
        ((OBSERVATION, 1.0), ["received: 2 values", "help: return observation, reward, terminated, truncated, info"]),
        (OBSERVATION, ["received: array([0., 0.]"]),
        (None, ["received: None"]),
        ((OBSERVATION, 1.0, False, False, None), ["the info that its step returned is not a dict"]),
    ],
)
def test_steps(at_step, words):
    env = GymEnv(Sloppy(at_step=at_step))
    env.reset(seed=1)
    with pytest.raises(EnvError) as caught:
        env.step({"action": np.zeros(1, np.float32)})
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_reset_that_takes_no_seed():
    with pytest.raises(EnvError, match="its reset does not take seed") as caught:
        GymEnv(WithoutSeed()).reset(seed=1)
    assert "received: reset(options=None)" in str(caught.value)


def test_an_error_of_the_environment_itself_stays_what_it_is():
    with pytest.raises(TypeError, match="of its own"):
        GymEnv(ForwardsAll()).reset(seed=1)
