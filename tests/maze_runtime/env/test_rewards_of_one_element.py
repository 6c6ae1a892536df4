"""A reward may be an array, a list or a bool wherever one is read, not only in training."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.env import GymEnv
from maze_runtime.context import RunContext
from maze_runtime.env.to_gymnasium import to_gymnasium
from maze_runtime.rollout.simple_statistics import simple_statistics
from maze_trajectories.dataset import TrajectoryDataset

REWARDS = [np.ones(1), [1.0], np.True_, np.array(1), 1]


class Paying(gymnasium.Env):
    observation_space = spaces.Box(0.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, pays=1.0):
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.n_steps += 1
        return np.ones(1, np.float32), self.pays, self.n_steps == 4, False, {}


@pytest.mark.parametrize("pays", REWARDS, ids=repr)
def test_environments_for_others_pay_floats(pays):
    env = to_gymnasium(GymEnv(Paying(pays)))
    env.reset(seed=0)
    reward = env.step(1)[1]
    assert isinstance(reward, float)
    assert reward == 1.0


@pytest.mark.parametrize("pays", REWARDS, ids=repr)
def test_simple_statistics_count_them(pays):
    env = simple_statistics(Paying(pays))
    env.reset(seed=0)
    for _ in range(4):
        env.step(0)
    assert re.search(r"reward/mean +4\n", f"{env}\n")


@pytest.mark.parametrize("pays", REWARDS, ids=repr)
def test_recordings_and_events_hold_them(pays, tmp_path):
    context = RunContext(env=lambda: Paying(pays), silent=True)
    result = context.rollout(1, policy="random", record_dir=tmp_path / "rec", events_dir=tmp_path / "events")
    assert result.episodes[0].error is None
    assert result.episodes[0].total_reward == 4.0
    assert TrajectoryDataset.open(tmp_path / "rec")[0].info.total_reward == 4.0
