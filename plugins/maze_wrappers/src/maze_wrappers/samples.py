"""A bounded sample of a stream of arrays, spread evenly over it, and the rows of a tick that belong into one."""

from __future__ import annotations

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import Tick


def live_rows(tick: Tick, policy_key: PolicyKey, rows: np.ndarray) -> np.ndarray:
    """Those of the rows (n, …) of a key's group whose decision is not void."""
    if tick.awaiting_reset is None:
        return rows
    live: np.ndarray = rows[~tick.awaiting_reset[tick.groups[policy_key].env_index]]
    return live


class EvenSample:
    """Keeps every k-th array; k doubles whenever there are too many, so that late ones count like early ones.

    Args:
        size: most rows that `drain` returns.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[np.ndarray] = []
        self._n_rows = self._seen = 0
        self._stride = 1

    def add(self, rows: np.ndarray) -> None:
        """Rows (m, …) of one tick; copied where they are kept."""
        if not len(rows):
            return
        if self._seen % self._stride == 0:
            self._kept.append(np.array(rows))
            self._n_rows += len(rows)
            if self._n_rows > self._size and len(self._kept) > 1:
                self._kept = self._kept[::2]
                self._n_rows = sum(len(kept) for kept in self._kept)
                self._stride *= 2
        self._seen += 1

    def drain(self) -> np.ndarray | None:
        """The rows kept since the last call, (n, …); None where there are none."""
        kept, self._kept = self._kept, []
        self._n_rows, self._seen, self._stride = 0, 0, 1
        return np.concatenate(kept)[: self._size] if kept else None
