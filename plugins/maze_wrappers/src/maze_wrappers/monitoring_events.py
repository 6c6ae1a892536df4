"""The event interfaces of `monitoring` and `observation-visualization`: what they report and how it is drawn.

Values are summed up before they are reported: one report an environment batch and epoch, not one a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.components import load_attribute
from maze_runtime.events.declaration import define_epoch_stats, define_plot, define_stats_grouping
from maze_wrappers import plots


def _total(counts: list[np.ndarray]) -> np.ndarray:
    return np.asarray(np.sum(counts, axis=0))


def _joined(values: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(values)


def _flat(values: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([value.reshape(-1) for value in values]).astype(np.float64)


def _mean(values: list[np.ndarray]) -> float:
    return float(_flat(values).mean())


def _std(values: list[np.ndarray]) -> float:
    return float(_flat(values).std())


def _min(values: list[np.ndarray]) -> float:
    return float(_flat(values).min())


def _max(values: list[np.ndarray]) -> float:
    return float(_flat(values).max())


class ActionEvents:
    """What was chosen, by policy key, action and the option `name` of the wrapper."""

    @define_plot(plots.bars)
    @define_epoch_stats(_total)
    @define_stats_grouping("policy_key", "name", "wrapper")
    def discrete_action(self, policy_key: str, name: str, wrapper: str | None, counts: np.ndarray) -> None:
        """How often each choice was taken, (K,); a bar each."""

    @define_plot(plots.violins, input_name="distribution")
    @define_epoch_stats(_joined, output_name="distribution")
    @define_epoch_stats(_mean, output_name="mean")
    @define_epoch_stats(_std, output_name="std")
    @define_stats_grouping("policy_key", "name", "wrapper")
    def continuous_action(self, policy_key: str, name: str, wrapper: str | None, values: np.ndarray) -> None:
        """A sample of actions, (m, …); a violin an element."""


class ObservationEvents:
    """What was seen, by policy key, observation and the option `name` of the wrapper."""

    @define_plot(plots.violins, input_name="distribution")
    @define_epoch_stats(_joined, output_name="distribution")
    @define_epoch_stats(_mean, output_name="mean")
    @define_epoch_stats(_std, output_name="std")
    @define_epoch_stats(_min, output_name="min")
    @define_epoch_stats(_max, output_name="max")
    @define_stats_grouping("policy_key", "name", "wrapper")
    def observation(self, policy_key: str, name: str, wrapper: str | None, values: np.ndarray) -> None:
        """A sample of observations, (m, …)."""


class RewardEvents:
    """Rewards of single steps."""

    @define_epoch_stats(_flat, output_name="histogram")
    @define_epoch_stats(_mean, output_name="mean")
    @define_epoch_stats(_std, output_name="std")
    @define_epoch_stats(_min, output_name="min")
    @define_epoch_stats(_max, output_name="max")
    @define_stats_grouping("name")
    def step_reward(self, name: str | None, values: np.ndarray) -> None:
        """A sample of rewards, (m,)."""


def _draw(reports: list[tuple[str, np.ndarray]], group: tuple[Any, ...]) -> Any:
    draw = load_attribute(reports[0][0]) if reports[0][0] else plots.observations
    return draw(np.concatenate([values for _, values in reports]), group)


class ObservationVisualizationEvents:
    """Observations to be drawn."""

    @define_plot(_draw)
    @define_epoch_stats(list)
    @define_stats_grouping("policy_key", "name")
    def observation(self, policy_key: str, name: str, report: tuple[str, np.ndarray]) -> None:
        """The import path of the function that draws ("": the built-in one), and a sample, (m, …)."""
