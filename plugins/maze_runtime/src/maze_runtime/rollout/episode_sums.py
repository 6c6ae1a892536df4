"""Sums of rewards and lengths of the episodes of a batch, as they pass one place of the stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, Tick

_BLOCK = 256
"""Ticks that are only written down before episodes are summed up."""


class EpisodeSums:
    """Implements `Memory` and `ReportsBatchStatistics`.

    Args:
        n_envs: of the batch.
        report: event statistics of a finished episode from the sum of its rewards and its flat steps.
    """

    def __init__(self, n_envs: int, report: Callable[[float, int], EpisodeStatistics]) -> None:
        self._n_envs = n_envs
        self._report = report
        self._reward = np.zeros((_BLOCK, n_envs), np.float64)
        self._ended = np.zeros((_BLOCK, n_envs), np.bool_)
        self._steps = np.ones((_BLOCK, n_envs), np.bool_)
        self._finished: list[list[EpisodeStatistics]] = [[] for _ in range(n_envs)]
        self._n_closed, self._closed_reward = 0, 0.0
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
            np.logical_not(self._awaiting, out=self._steps[t])
        self._awaiting = tick.awaiting_reset
        self._t = t + 1
        if self._t == _BLOCK:
            self._sum_up()
        return tick

    def so_far(self) -> tuple[float, int]:
        """Sum of the rewards, and number, of the episodes that ended since the last drain."""
        ended = self._ended[: self._t]
        has_end = ended.any(axis=0)
        # Of each environment what it was paid until its last end: Σ of all its episodes there
        last = self._t - 1 - ended[::-1].argmax(axis=0) if self._t else 0
        paid = self._open_reward + np.where(np.arange(self._t)[:, None] <= last, self._reward[: self._t], 0.0).sum(
            axis=0
        )
        return self._closed_reward + float(paid[has_end].sum()), self._n_closed + int(np.count_nonzero(ended))

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The episodes of each environment that ended since the last call."""
        self._sum_up()
        self._n_closed, self._closed_reward = 0, 0.0
        finished, self._finished = self._finished, [[] for _ in range(self._n_envs)]
        return finished

    def _sum_up(self) -> None:
        """Cut the block into parts of episodes, all environments at once, and sum up each part."""
        n_ticks, self._t = self._t, 0
        if not n_ticks:
            return
        # Those of each environment in a row
        reward, steps = self._reward[:n_ticks].T.ravel(), self._steps[:n_ticks].T.ravel()
        ended = self._ended[:n_ticks].T.ravel()
        is_start = np.zeros(len(ended) + 1, np.bool_)
        is_start[::n_ticks] = True  # of each environment's ticks, which stand one environment after the other
        is_start[1:] |= ended
        starts = np.flatnonzero(is_start[:-1])
        rewards = np.add.reduceat(reward, starts)
        lengths = np.add.reduceat(steps, starts, dtype=np.int64)
        first = np.flatnonzero(starts % n_ticks == 0)
        rewards[first] += self._open_reward
        lengths[first] += self._open_steps
        closed = ended[np.append(starts[1:], len(ended)) - 1]
        last = np.append(first[1:], len(starts)) - 1
        self._open_reward = np.where(closed[last], 0.0, rewards[last])
        self._open_steps = np.where(closed[last], 0, lengths[last])
        envs = starts[closed] // n_ticks
        for env, total, length in zip(envs.tolist(), rewards[closed].tolist(), lengths[closed].tolist(), strict=True):
            self._finished[env].append(self._report(total, length))
            self._n_closed, self._closed_reward = self._n_closed + 1, self._closed_reward + total
        self._steps.fill(True)
