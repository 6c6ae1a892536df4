"""Rewards and lengths of episodes as they are seen at one place of the stack."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.contracts.events import EpisodeStatistics, EventStatistics
from maze_kernel.contracts.transform import Transform
from maze_runtime.events.declaration import define_epoch_stats, define_stats_grouping
from maze_runtime.rollout.episode_sums import EpisodeSums
from maze_wrappers.options import LogStatsOptions


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
    @define_epoch_stats(np.median, output_name="median")
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
        return EpisodeSums(n_envs, self._statistics)

    def _statistics(self, reward: float, length: int) -> EpisodeStatistics:
        group = (self.options.name or None,)
        values: list[tuple[Any, Any]] = [(LogStatsEvents.reward, reward), (LogStatsEvents.episode_length, length)]
        return [EventStatistics(LogStatsEvents.__name__, event, {(None, group): [value]}) for event, value in values]
