"""From what RLlib reports of an iteration to the statistics of an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np

from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.trainer import Statistics
from maze_runtime.rollout.episode_statistics import summarize_episodes

RETURNS, LENGTHS = "maze_episode_returns", "maze_episode_lengths"
"""Names under which `note_episode` reports finished episodes."""
EVENTS = "maze_events"
"""Name under which `note_events` reports what happened in them."""


class NotedEvents:
    """Event statistics on their way from a runner; closed, because RLlib looks into lists and attrs classes."""

    def __init__(self, episodes: list[EpisodeStatistics]) -> None:
        self.episodes = episodes


def note_episode(*, env: Any, env_index: int, metrics_logger: Any, **_: Any) -> None:
    """RLlib's callback where an episode ends: its return and length reach the results of the iteration whole.

    The environment counts them, because RLlib cuts episodes into pieces and counts a reward for each agent.
    """
    finished = env.envs[env_index].unwrapped
    metrics_logger.log_value(RETURNS, float(finished.episode_return), reduce="item_series")
    metrics_logger.log_value(LENGTHS, float(finished.episode_length), reduce="item_series")


def note_events(*, env_runner: Any, metrics_logger: Any, **_: Any) -> None:
    """RLlib's callback after each of a runner's samples: the event statistics of episodes that ended go with it.

    An environment in this process and one of a runner elsewhere report the same way.
    """
    envs = getattr(env_runner.env, "unwrapped", env_runner.env).envs
    episodes = [episode for env in envs for episode in env.unwrapped.events.drain()]
    if episodes:
        metrics_logger.log_value(EVENTS, NotedEvents(episodes), reduce="item_series")


def noted_events(results: Mapping[str, Any]) -> list[EpisodeStatistics]:
    """The episodes that `note_events` reported for an iteration.

    Args:
        results: of the iteration.
    """
    noted = results.get("env_runners", {}).get(EVENTS)
    series = noted if isinstance(noted, list) else [noted]  # RLlib unpacks a series of one
    return [episode for one in series if isinstance(one, NotedEvents) for episode in one.episodes]


def epoch_statistics(results: Mapping[str, Any], modules: Iterable[str]) -> Statistics:
    """Episodes that finished in the epoch, and what the learner says of each module.

    Args:
        results: of one iteration.
        modules: the learner's modules; one alone gives no prefix.
    """
    runners = results.get("env_runners", {})
    returns, lengths = (_series(runners.get(name)) for name in (RETURNS, LENGTHS))
    statistics = summarize_episodes(returns, lengths)
    names = list(modules)
    for module in names:
        prefix = "RLlibEvents/" + (f"{module}/" if len(names) > 1 else "")
        for name, value in results.get("learners", {}).get(module, {}).items():
            if isinstance(value, Number | np.generic) or (np.ndim(value) == 0 and hasattr(value, "item")):
                statistics[f"{prefix}{name}"] = float(value)
    timers = results.get("timers", {})
    for name, tag in (("env_runner_sampling_timer", "rollout"), ("learner_update_timer", "update")):
        if name in timers:
            statistics[f"Timing/{tag}_seconds"] = float(timers[name])
    return statistics


def _series(values: Any) -> np.ndarray:
    """What was noted since the last iteration; RLlib gives NaN where there was nothing."""
    array = np.atleast_1d(np.asarray(() if values is None else values, np.float64))
    return array[~np.isnan(array)]
