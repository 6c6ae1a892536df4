"""Event statistics of a batch: by environment, found behind wrappers, cut-off episodes left out."""

from functools import partial

import numpy as np

from maze_cutting2d.env import make_env
from maze_cutting2d.options import CuttingOptions
from maze_processes.subprocess_vector import SubprocessVectorEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_testing.environments import Identity


def wrapped(n_steps):
    return EnvWrapper(make_env(CuttingOptions(max_episode_steps=n_steps)))


def play(batch):
    """Statistics by environment of an episode cut off by `reset`, and of seven steps."""
    action = {"0": {head: np.zeros(2, np.int64) for head in ("piece_idx", "cut_rotation", "cut_order")}}
    batch.reset([[1], [2]])
    batch.step(action)
    batch.reset([[1], [2]])
    for _ in range(7):
        batch.step(action)
    drained = batch.drain_batch_statistics()
    assert batch.drain_batch_statistics() == [[], []]
    batch.close()
    return drained


def test_each_environment_reports_the_episodes_it_finished():
    first, second = play(SequentialVectorEnv([partial(wrapped, 2), partial(wrapped, 5)]))
    assert (len(first), len(second)) == (3, 1)
    epoch = EpochAggregator()
    epoch.add_episodes(second)
    counts = epoch.reduce()
    assert sum(counts[f"CuttingEvents/{name}/mean_episode_total"] for name in ("valid_cut", "invalid_cut")) == 5


def test_processes_report_the_same():
    factories = [partial(wrapped, 2), partial(wrapped, 5)]
    reports = []
    for batch in (SequentialVectorEnv(factories), SubprocessVectorEnv(factories, 2)):
        epoch = EpochAggregator()
        for episodes in play(batch):
            epoch.add_episodes(episodes)
        reports.append(epoch.reduce())
    assert reports[0] == reports[1]
    assert reports[0]["BaseEnvEvents/kpi/max/raw_piece_usage_per_step"] > 0


def test_environments_without_events_report_nothing():
    batch = SequentialVectorEnv([Identity])
    batch.reset([[1]])
    assert batch.drain_batch_statistics() == [[]]
