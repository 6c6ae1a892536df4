"""Episode returns and lengths counted a rollout at a time equal those counted a step at a time."""

import numpy as np
import pytest

from maze_runtime.rollout.episode_statistics import EpisodeReturns, summarize_episodes


def _one_by_one(rollouts, n_envs):
    """Summaries after each rollout, from a loop over steps and environments."""
    total, length = np.zeros(n_envs), np.zeros(n_envs, int)
    for reward, ended, void in rollouts:
        returns, lengths = [], []
        for t in range(len(reward)):
            for n in range(n_envs):
                total[n] += reward[t, n]
                length[n] += not void[t, n]
                if ended[t, n]:
                    returns.append(total[n])
                    lengths.append(length[n])
                    total[n], length[n] = 0.0, 0
        yield summarize_episodes(np.array(returns), np.array(lengths))


@pytest.mark.parametrize("end_rate", [0.0, 0.1, 0.9, 1.0])
@pytest.mark.parametrize(("n_steps", "n_envs"), [(1, 1), (1, 4), (7, 3), (16, 1)])
def test_a_rollout_at_once_equals_step_by_step(n_steps, n_envs, end_rate):
    rng = np.random.default_rng(3)
    shape = (n_steps, n_envs)
    rollouts = [
        (rng.normal(size=shape).astype(np.float32), rng.random(shape) < end_rate, rng.random(shape) < 0.2)
        for _ in range(4)
    ]
    statistics = EpisodeReturns(n_envs)
    for rollout, expected in zip(rollouts, _one_by_one(rollouts, n_envs), strict=True):
        statistics.add(*rollout)
        assert statistics.drain() == expected


def test_reset_forgets_unfinished_episodes_only():
    statistics = EpisodeReturns(2)
    no = np.zeros((1, 2), bool)
    statistics.add(np.array([[1.0, 5.0]], np.float32), np.array([[False, True]]), no)
    statistics.reset()
    statistics.add(np.array([[2.0, 7.0]], np.float32), np.array([[True, False]]), no)
    assert statistics.drain()["BaseEnvEvents/reward/median"] == 3.5
