"""A column of stacked frames, of which a row keeps the newest alone where the others are those of the row before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict

MOST_FRAMES = 16
"""A longer first dimension is no stack: height comes first in most pictures."""
FEWEST_NUMBERS = 256
"""In a frame; smaller ones are not worth it."""
N_TRIED = 256
"""After so many rows it is known whether the rows before them help."""
_NEVER = 255
"""The age of a row that was never written."""


def may_be_stacked(space: spaces.Space[Any]) -> bool:
    """Whether the first dimension of an observation may be that of the last few frames, oldest first."""
    shape = space.shape or ()
    return len(shape) > 2 and 1 < shape[0] <= MOST_FRAMES and int(np.prod(shape[1:])) >= FEWEST_NUMBERS


def n_older_of(observation: spaces.Dict) -> int:
    """How many rows before it a row may go on from: n - 1 of the longest stacks, 0 without any."""
    return max((own.shape[0] - 1 for own in observation.values() if own.shape and may_be_stacked(own)), default=0)


class FrameStacks:
    """R rings of L observations (n, *frame), by flat index like the column of an array, whole where it is read.

    A stack whose older frames are the newer ones of the row before is kept as its newest frame and its *age*: how many
    rows it goes on from, n - 1 at most. Any other stack begins anew: its age is 0, and its older frames are kept
    beside. What is read is what was written, to the bit, until one of the `n_older` rows before is overwritten.

    Where most rows begin anew, the first dimension is no stack, and whole observations are kept from then on.

    Args:
        space: of the observation.
        n_rings, n_rows: R and L.

    Attributes:
        n_older: n - 1, the rows that one may go on from.
    """

    def __init__(self, space: spaces.Space[Any], n_rings: int, n_rows: int) -> None:
        assert space.shape is not None
        self._shape, self._dtype = space.shape, np.dtype(space.dtype).newbyteorder("=")
        self._rings = n_rings, n_rows
        self.n_older = space.shape[0] - 1
        self._steps_back = np.arange(self.n_older, -1, -1)
        self._begin()

    def _begin(self) -> None:
        n_rows = self._rings[0] * self._rings[1]
        self._frames = np.zeros((n_rows, *self._shape[1:]), self._dtype)
        self._ages = np.full(n_rows, _NEVER, np.uint8)
        self._older: dict[int, np.ndarray] = {}
        self._whole: np.ndarray | None = None
        self._n_written = self._n_begun = 0

    def __setitem__(self, rows: np.ndarray, observations: np.ndarray) -> None:
        """Write (m, n, *frame) to flat indices (m,), each in a ring of its own."""
        if self._whole is not None:
            self._whole[rows] = observations
            return
        before = self._back(rows, 1)
        ages = self._ages.take(before)
        is_same = self.take(before)[:, 1:] == observations[:, :-1]
        goes_on = is_same.all(axis=tuple(range(1, is_same.ndim))) & (ages != _NEVER)
        self._frames[rows] = observations[:, -1]
        self._ages[rows] = np.where(goes_on, np.minimum(ages, self.n_older - 1) + 1, 0)
        for row, observation, has_history in zip(rows.tolist(), observations, goes_on.tolist(), strict=True):
            if has_history:
                self._older.pop(row, None)
            else:
                self._older[row] = observation[:-1].copy()
        if self._n_written < N_TRIED:
            self._n_written += len(rows)
            self._n_begun += len(rows) - int(np.count_nonzero(goes_on))
            if self._n_written >= N_TRIED and 2 * self._n_begun > self._n_written:
                self._keep_whole()

    def take(self, rows: np.ndarray, axis: int = 0) -> np.ndarray:
        """(m, n, *frame) of flat indices (m,); `axis` is that of an array's method, 0."""
        if self._whole is not None:
            return self._whole.take(rows, axis=axis)
        stacks: np.ndarray = self._frames.take(self._back(rows[:, None], self._steps_back), axis=0)
        ages = self._ages.take(rows)
        for place in np.flatnonzero(ages < self.n_older).tolist():
            age = int(ages[place])
            older = self._older.get(int(self._back(rows[place], age)))
            stacks[place, : self.n_older - age] = 0 if older is None else older[age:]
        return stacks

    def columns(self) -> ArrayDict:
        """What is kept of each row, (R, L, …): views."""
        kept = {"": self._whole} if self._whole is not None else {".frames": self._frames, ".ages": self._ages}
        return {name: array.reshape(*self._rings, *array.shape[1:]) for name, array in kept.items()}

    def moved_from(self, other: FrameStacks, place: np.ndarray) -> None:
        """Take over what another one keeps beside its columns, row p of which went to `place[p]`, −1: nowhere."""
        if other._whole is not None:
            self._keep_whole()
        rows = {row: int(place[row]) for row in other._older}
        self._older = {rows[row]: older for row, older in other._older.items() if rows[row] >= 0}
        self._n_written, self._n_begun = other._n_written, other._n_begun

    def state_dict(self) -> dict[str, Any]:
        """What is kept beside the columns, copies."""
        rows = np.array(sorted(self._older), np.int64)
        empty = np.zeros((0, self.n_older, *self._shape[1:]), self._dtype)
        return {"rows": rows, "older": np.stack([self._older[row] for row in rows.tolist()]) if len(rows) else empty}

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Be ready for columns that are loaded then; None: of whole observations."""
        if state is None:
            self._keep_whole()
            return
        if self._whole is not None:
            self._begin()
        rows = np.asarray(state["rows"]).tolist()
        self._older = {row: np.array(older) for row, older in zip(rows, np.asarray(state["older"]), strict=True)}

    @property
    def is_whole(self) -> bool:
        """Whether whole observations are kept."""
        return self._whole is not None

    def _back(self, rows: np.ndarray, steps: np.ndarray | int) -> np.ndarray:
        """Flat indices so many steps before, in the same rings."""
        n_rows = self._rings[1]
        back: np.ndarray = rows - steps
        return np.where(back < rows - rows % n_rows, back + n_rows, back)

    def _keep_whole(self) -> None:
        if self._whole is None:
            written = np.flatnonzero(self._ages != _NEVER)
            whole = np.zeros((len(self._ages), *self._shape), self._dtype)
            whole[written] = self.take(written)
            self._whole, self._older = whole, {}
            self._frames, self._ages = np.zeros(0, self._dtype), np.zeros(0, np.uint8)
