"""Wrappers that take several steps at once add rewards as numbers, whatever type an environment pays in."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import GymEnv
from maze_wrappers.first_actions import FirstActions
from maze_wrappers.options import FirstActionsOptions, StepSkipOptions
from maze_wrappers.step_skip import StepSkip

PAYS = {"float": 1.0, "bool": np.True_, "uint8": np.uint8(100), "float16": np.float16(2048), "list": [1.0]}


class Paying(gymnasium.Env):
    """Pays the same in every step, from a buffer of its own where that is an array; every fourth step costs a life."""

    observation_space = spaces.Box(0.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, pays):
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return np.zeros(1, np.float32), {"lives": 3}

    def step(self, action):
        self.n_steps += 1
        return np.zeros(1, np.float32), self.pays, False, False, {"lives": 3 - self.n_steps // 4}


@pytest.mark.parametrize("kind", PAYS)
def test_skipped_steps_are_paid_in_full(kind):
    env = StepSkip(GymEnv(Paying(PAYS[kind])), StepSkipOptions(n_steps=4))
    env.reset(seed=0)
    assert env.step({"action": 1})[1] == 4 * float(np.ravel(PAYS[kind])[0])


@pytest.mark.parametrize("kind", PAYS)
def test_actions_behind_a_lost_life_are_paid_in_full(kind):
    env = FirstActions(GymEnv(Paying(PAYS[kind])), FirstActionsOptions(actions=[{"action": 1}] * 2, key="lives"))
    env.reset(seed=0)
    paid = float(np.ravel(PAYS[kind])[0])
    assert [float(np.ravel(env.step({"action": 0})[1])[0]) for _ in range(2)] == [paid, 3 * paid]


def test_the_array_that_an_environment_pays_with_stays_its_own():
    buffer = np.ones(1, np.float32)
    env = StepSkip(GymEnv(Paying(buffer)), StepSkipOptions(n_steps=4))
    env.reset(seed=0)
    assert env.step({"action": 1})[1] == 4.0
    assert buffer == 1.0
