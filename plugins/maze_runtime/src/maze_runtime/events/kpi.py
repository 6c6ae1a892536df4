"""Key performance indicators: what a user wants of an episode, computed at its end from its events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_runtime.events.declaration import define_episode_stats, define_epoch_stats, define_stats_grouping
from maze_runtime.events.logs import EpisodeEventLog


class KpiCalculator(ABC):
    """Computes the KPIs of an episode."""

    @abstractmethod
    def calculate_kpis(self, episode_event_log: EpisodeEventLog, last_maze_state: Any) -> Mapping[str, float]:
        """Called once when an episode has ended.

        Args:
            episode_event_log: all its events; `len(episode_event_log.steps)` is its length.
            last_maze_state: the state it ended in.

        Returns:
            KPI by name; they appear as `BaseEnvEvents/kpi/mean/<name>` and so on.
        """


class BaseEnvEvents:
    """Events of every Maze environment. Rewards and lengths are counted on arrays, by the collectors."""

    @define_epoch_stats(np.mean, output_name="mean")
    @define_epoch_stats(np.std, output_name="std")
    @define_epoch_stats(min, output_name="min")
    @define_epoch_stats(max, output_name="max")
    @define_epoch_stats(np.median, output_name="median")
    @define_episode_stats(None)
    @define_stats_grouping("name")
    def kpi(self, name: str, value: float) -> None:
        """A KPI of the episode that just ended."""

    @define_epoch_stats(np.mean, output_name="mean")
    @define_epoch_stats(np.std, output_name="std")
    @define_epoch_stats(min, output_name="min")
    @define_epoch_stats(max, output_name="max")
    @define_epoch_stats(np.median, output_name="median")
    def raw_reward(self, value: float) -> None:
        """What the environment paid in a training episode whose rewards wrappers shape."""
