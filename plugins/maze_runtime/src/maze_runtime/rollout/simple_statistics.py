"""Statistics of a loop that somebody wrote by hand: rewards, lengths, and the events of Maze environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.contracts.events import EpisodeStatistics
from maze_runtime.env.batching import scalar_reward
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.events.reporters import reporter_of
from maze_runtime.rollout.episode_statistics import summarize_episodes


def simple_statistics(env: Any) -> SimpleStatistics:
    """The same environment, whose episodes are counted; `print` shows them as a table.

        env = simple_statistics(gymnasium.make("CartPole-v1"))
        …  # your loop, with env.reset and env.step
        print(env)

    Args:
        env: a Maze or a Gymnasium environment.
    """
    return SimpleStatistics(env)


class SimpleStatistics:
    """An environment whose finished episodes are counted; everything else is the environment's own.

    Args:
        env: a Maze or a Gymnasium environment.

    Attributes:
        env: the environment.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._source = reporter_of(env)
        self._first: Any = None
        self._is_running = self._is_over = False
        self.clear()

    def clear(self) -> None:
        """Count from the beginning; an episode that is running counts when it ends."""
        self._finish()
        self._rewards: list[float] = []
        self._lengths: list[int] = []
        self._episodes: list[EpisodeStatistics] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode; one that did not end is not counted."""
        if self._is_running and self._source is not None:
            self._source.discard_episode()
        self._finish()
        first, self._first = self._first, None
        if first is None or seed is not None or options is not None:
            first = self.env.reset(seed=seed, options=options)
        self._reward, self._length, self._is_running = 0.0, 0, True
        return first

    def step(self, action: Any) -> Any:
        """Take one step."""
        result = self.env.step(action)
        _, reward, terminated, truncated, _ = result
        self._reward += scalar_reward(reward)
        advances = getattr(self.env, "is_flat_step_end", None)
        self._length += advances is None or bool(advances())
        if terminated or truncated:
            self._rewards.append(self._reward)
            self._lengths.append(self._length)
            self._is_running, self._is_over = False, True
        return result

    def statistics(self) -> dict[str, Any]:
        """Statistics of the finished episodes since the last `clear`, by tag as in training."""
        self._finish()
        events = EpochAggregator()
        events.add_episodes(self._episodes)
        summary = summarize_episodes(np.array(self._rewards, np.float64), np.array(self._lengths, np.int64))
        return {**summary, **events.reduce(draw=False)}

    def _finish(self) -> None:
        """Take over the events of the episode that is over. An environment completes them when the next one begins."""
        if self._is_over and self._source is not None:
            self._first = self.env.reset()
            self._episodes += self._source.drain_statistics()
        self._is_over = False

    def __str__(self) -> str:
        rows = [(tag, _shown(value)) for tag, value in self.statistics().items()]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        return "\n".join(f"{tag:<{widths[0]}}  {value:>{widths[1]}}" for tag, value in rows)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def _shown(value: Any) -> str:
    """A number, or how many values there are and their mean."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return str(value)
    if array.size == 1:
        return f"{array.item():.6g}"
    return f"{array.size} values, mean {array.mean():.6g}" if array.size else "no values"
