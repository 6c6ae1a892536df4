"""Returns and lengths of the episodes of a batch of environments, kept on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


class EpisodeReturns:
    """Accumulates rewards of N environments and remembers the episodes that finished since the last `drain`."""

    def __init__(self, n_envs: int) -> None:
        self._return = np.zeros(n_envs, np.float64)
        self._length = np.zeros(n_envs, np.int64)
        self._finished_returns: list[float] = []
        self._finished_lengths: list[int] = []
        self._summed = 0, 0.0

    def reset(self) -> None:
        """Forget the unfinished episodes."""
        self._return.fill(0.0)
        self._length.fill(0)

    def forget(self, env_index: np.ndarray) -> None:
        """Forget the unfinished episodes of these environments (m,)."""
        self._return[env_index] = 0.0
        self._length[env_index] = 0

    def add(self, reward: np.ndarray, ended: np.ndarray, void: np.ndarray) -> None:
        """Count a rollout: (T, N) rewards, episode ends, and steps that only reset."""
        if len(reward) == 1:
            self.add_step(reward[0], ended[0], void[0])
            return
        # Environment by environment, time inside; a sum runs from each episode's first step here to its last.
        n_steps, n_envs = reward.shape
        ends = ended.T.reshape(-1)
        starts = np.concatenate([np.ones((n_envs, 1), np.bool_), ended.T[:, :-1]], axis=1).reshape(-1)
        first = np.flatnonzero(starts)
        last = np.append(first[1:], ends.size) - 1
        returns = _sums(reward.T.astype(np.float64), self._return, first)
        lengths = _sums((~void.T).astype(np.int64), self._length, first)
        finished, env, time = ends[last], last // n_steps, last % n_steps
        self.reset()
        self._return[env[~finished]] = returns[~finished]
        self._length[env[~finished]] = lengths[~finished]
        in_order = np.lexsort((env[finished], time[finished]))
        self._finished_returns += returns[finished][in_order].tolist()
        self._finished_lengths += lengths[finished][in_order].tolist()

    def add_step(self, reward: np.ndarray, ended: np.ndarray, void: np.ndarray) -> None:
        """The same for one step, (N,) each."""
        self._return += reward
        self._length += ~void
        if np.count_nonzero(ended):
            self._finished_returns += self._return[ended].tolist()
            self._finished_lengths += self._length[ended].tolist()
            self._return[ended] = 0.0
            self._length[ended] = 0

    def mean(self) -> float | None:
        """Mean return of the episodes finished since the last call of `drain`; None without any."""
        returns, (n_summed, total) = self._finished_returns, self._summed
        self._summed = len(returns), total + sum(returns[n_summed:])
        return self._summed[1] / len(returns) if returns else None

    def drain(self) -> dict[str, Any]:
        """Statistics of the episodes finished since the last call; only the count where there were none."""
        return summarize_episodes(*self.take())

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (E,) float64 and lengths (E,) int64 of the episodes finished since the last call, as they ended."""
        returns = np.array(self._finished_returns, np.float64)
        lengths = np.array(self._finished_lengths, np.int64)
        self._finished_returns, self._finished_lengths, self._summed = [], [], (0, 0.0)
        return returns, lengths


def _sums(values: np.ndarray, carried: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Sums of (N, T) values from each flat index of `first` to before the next; (N,) `carried` opens each row."""
    values[:, 0] += carried
    sums: np.ndarray = np.add.reduceat(values.reshape(-1), first)
    return sums


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
            "BaseEnvEvents/episode_length/median": float(np.median(lengths)),
        }
    return statistics
