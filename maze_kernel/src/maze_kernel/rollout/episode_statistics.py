"""Returns and lengths of the episodes of a batch of environments, kept on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


class EpisodeStatistics:
    """Accumulates rewards of N environments and remembers the episodes that finished since the last `drain`."""

    def __init__(self, n_envs: int) -> None:
        self._return = np.zeros(n_envs, np.float64)
        self._length = np.zeros(n_envs, np.int64)
        self._finished_returns: list[float] = []
        self._finished_lengths: list[int] = []

    def reset(self) -> None:
        """Forget the unfinished episodes."""
        self._return.fill(0.0)
        self._length.fill(0)

    def add(self, reward: np.ndarray, ended: np.ndarray, void: np.ndarray | None = None) -> None:
        """Count one step: (N,) rewards, (N,) episode ends, (N,) steps that only reset."""
        self._return += reward
        self._length += 1
        if void is not None:
            self._length -= void
        if ended.any():
            self._finished_returns += self._return[ended].tolist()
            self._finished_lengths += self._length[ended].tolist()
            self._return[ended] = 0.0
            self._length[ended] = 0

    def drain(self) -> dict[str, Any]:
        """Statistics of the episodes finished since the last call; only the count where there were none."""
        returns, lengths = np.array(self._finished_returns), np.array(self._finished_lengths)
        self._finished_returns, self._finished_lengths = [], []
        return summarize_episodes(returns, lengths)


def summarize_episodes(returns: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    """Tagged statistics of episodes: returns (E,) and lengths (E,)."""
    statistics: dict[str, Any] = {"BaseEnvEvents/episode_count": len(returns)}
    if len(returns):
        statistics |= {
            "BaseEnvEvents/reward/mean": float(returns.mean()),
            "BaseEnvEvents/reward/std": float(returns.std()),
            "BaseEnvEvents/reward/min": float(returns.min()),
            "BaseEnvEvents/reward/max": float(returns.max()),
            "BaseEnvEvents/reward/median": float(np.median(returns)),
            "BaseEnvEvents/episode_length/mean": float(lengths.mean()),
        }
    return statistics
