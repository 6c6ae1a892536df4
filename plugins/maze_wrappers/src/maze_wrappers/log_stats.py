"""Rewards and lengths of episodes as they are seen at one place of the stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.env.contract import PolicyKey
from maze_kernel.env.tick import ArrayDict, Tick
from maze_kernel.env.transform import Transform
from maze_kernel.events.aggregation import EpisodeStatistics, EventStatistics
from maze_kernel.events.declaration import define_epoch_stats, define_stats_grouping
from maze_wrappers.options import LogStatsOptions

_BLOCK = 256
"""Ticks that are only written down before episodes are summed up."""


class LogStatsEvents:
    """Statistics of finished episodes; `name` is the wrapper's option."""

    @define_epoch_stats(np.mean, output_name="mean")
    @define_epoch_stats(np.std, output_name="std")
    @define_epoch_stats(min, output_name="min")
    @define_epoch_stats(max, output_name="max")
    @define_epoch_stats(np.median, output_name="median")
    @define_stats_grouping("name")
    def reward(self, name: str | None, value: float) -> None:
        """Sum of an episode's rewards."""

    @define_epoch_stats(np.mean, output_name="mean")
    @define_epoch_stats(min, output_name="min")
    @define_epoch_stats(max, output_name="max")
    @define_epoch_stats(len, output_name="count")
    @define_stats_grouping("name")
    def episode_length(self, name: str | None, value: int) -> None:
        """Flat steps of an episode."""


class LogStats(Transform):
    """Changes nothing. Two of them, before and after `reward-scaling`, show both rewards.

    A tick costs three array writes; sums are taken for blocks of ticks.
    """

    reports = True

    def __init__(self, options: LogStatsOptions) -> None:
        self.options = options

    def memory(self, n_envs: int) -> EpisodeSums:
        """The running episodes of one batch."""
        return EpisodeSums(n_envs, self.options.name or None)


class EpisodeSums:
    """Implements `Memory` and `ReportsBatchStatistics`."""

    def __init__(self, n_envs: int, name: str | None) -> None:
        self._n_envs = n_envs
        self._group = (name,)
        self._reward = np.zeros((_BLOCK, n_envs), np.float64)
        self._ended = np.zeros((_BLOCK, n_envs), np.bool_)
        self._steps = np.ones((_BLOCK, n_envs), np.bool_)
        self._finished: list[list[EpisodeStatistics]] = [[] for _ in range(n_envs)]
        self._t = 0
        self._awaiting: np.ndarray | None = None
        self._open_reward = np.zeros(n_envs, np.float64)
        self._open_steps = np.zeros(n_envs, np.int64)

    def reset(self, tick: Tick) -> Tick:
        """All environments were reset: unfinished episodes do not count."""
        self._sum_up()
        self._open_reward.fill(0.0)
        self._open_steps.fill(0)
        self._awaiting = tick.awaiting_reset
        return tick

    def step(self, actions: Mapping[PolicyKey, ArrayDict], tick: Tick) -> Tick:
        """Write down the tick's rewards."""
        t = self._t
        self._reward[t] = tick.reward
        np.logical_or(tick.terminated, tick.truncated, out=self._ended[t])
        if tick.flat_step_end is not None:
            self._steps[t] = tick.flat_step_end
        if self._awaiting is not None:
            self._steps[t] = ~self._awaiting
        self._awaiting = tick.awaiting_reset
        self._t = t + 1
        if self._t == _BLOCK:
            self._sum_up()
        return tick

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The episodes of each environment that ended since the last call."""
        self._sum_up()
        finished, self._finished = self._finished, [[] for _ in range(self._n_envs)]
        return finished

    def _sum_up(self) -> None:
        """Cut the block at the ends of episodes, environment by environment."""
        n_ticks, self._t = self._t, 0
        rewards, ended, steps = (block[:n_ticks] for block in (self._reward, self._ended, self._steps))
        for env in range(self._n_envs if n_ticks else 0):
            first = 0
            for end in np.flatnonzero(ended[:, env]).tolist():
                self._add(env, rewards[first : end + 1, env], steps[first : end + 1, env])
                self._finish(env)
                first = end + 1
            self._add(env, rewards[first:, env], steps[first:, env])
        self._steps.fill(True)

    def _add(self, env: int, rewards: np.ndarray, steps: np.ndarray) -> None:
        self._open_reward[env] += rewards.sum()
        self._open_steps[env] += np.count_nonzero(steps)

    def _finish(self, env: int) -> None:
        values: list[tuple[Any, Any]] = [
            (LogStatsEvents.reward, float(self._open_reward[env])),
            (LogStatsEvents.episode_length, int(self._open_steps[env])),
        ]
        statistics = [
            EventStatistics(LogStatsEvents.__name__, event, {(None, self._group): [value]}) for event, value in values
        ]
        self._finished[env].append(statistics)
        self._open_reward[env], self._open_steps[env] = 0.0, 0
