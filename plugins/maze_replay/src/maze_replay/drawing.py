"""Which rows of a replay buffer are drawn: transitions at random, or runs of what was stored one behind the other."""

from __future__ import annotations

import attrs
import numpy as np

from maze_replay.memory import RingMemory

Only = tuple[str, int]
"""An observation of one number, and the value it has in the transitions that are wanted."""


@attrs.frozen
class RowDraws:
    """Draws from a memory that holds a transition at least; see `ReplayBuffer.sample`.

    Attributes:
        memory: rows.
        cursor: (R,) the pending row of each ring.
        filled: (R,) rows in use of each ring.
        rng: draws.
    """

    memory: RingMemory
    cursor: np.ndarray
    filled: np.ndarray
    rng: np.random.Generator

    def rows(self, size: int, only: Only | None = None) -> np.ndarray:
        """(size,) flat indices of transitions."""
        memory = self.memory
        rows = self._any(size)
        while True:
            wanted = memory.flat_valid.take(rows)
            if only is not None:
                wanted &= memory.observation[only[0]].reshape(-1).take(rows) == only[1]
            bad = np.flatnonzero(~wanted)
            if not len(bad):
                return rows
            rows[bad] = self._any(len(bad))

    def runs(self, rows: np.ndarray, length: int) -> np.ndarray:
        """(B · length,) flat indices of what was stored behind each row (B,), run by run."""
        memory, runs = self.memory, [rows]
        pending = memory.firsts + self.cursor
        for _ in range(length - 1):
            following = memory.following(rows)
            ends = following == pending[following // memory.n_rows]
            # Between the transitions of two episodes lies a final observation, if the first was cut.
            following = np.where(memory.flat_valid[following], following, memory.following(following))
            lost = np.flatnonzero(ends | ~memory.flat_valid[following])
            following[lost] = self.rows(len(lost)) if len(lost) else following[lost]
            rows = following
            runs.append(rows)
        return np.stack(runs, axis=1).reshape(-1)

    def _any(self, size: int) -> np.ndarray:
        """Of rows in use, and where rings are filled a little unequally of some others, which costs less."""
        memory, depth, n_used = self.memory, int(self.filled.max()), int(self.filled.sum())
        if 2 * n_used < memory.n_rings * depth:
            return self._used(size, n_used)
        drawn = self.rng.integers(0, memory.n_rings * depth, size=size)
        if memory.n_rings == 1 or depth == memory.n_rows:
            return drawn
        ring, position = np.divmod(drawn, depth)
        rows: np.ndarray = ring * memory.n_rows + position
        return rows

    def _used(self, size: int, n_used: int) -> np.ndarray:
        """Of rows in use alone."""
        drawn, ends = self.rng.integers(0, n_used, size=size), self.filled.cumsum()
        ring = np.searchsorted(ends, drawn, side="right")
        rows: np.ndarray = ring * self.memory.n_rows + drawn - (ends - self.filled)[ring]
        return rows
