"""Shorter sequences for the same steps: cut where episodes begin, and laid one behind the other in columns.

What NumPy needs for a step hardly depends on how many sequences take it. Episodes are independent of each other, so T
steps of B sequences may be L steps of C, where L is the longest piece. A column holds several pieces; where one begins,
the state is forgotten, as it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_FEWEST_STEPS_SAVED = 24
"""Moving the rows takes as long as so many steps."""


class Fold(NamedTuple):
    """Where the rows of T steps of B sequences stand among L steps of C columns.

    Attributes:
        rows: (T·B,) numbers of the rows t·B + b.
        places: (T·B,) their numbers l·C + c.
        shape, shape_before: (L, C) and (T, B).
        sequences: (B,) columns that begin with the first piece of a sequence, in the order of sequences.
    """

    rows: np.ndarray
    places: np.ndarray
    shape: tuple[int, int]
    shape_before: tuple[int, int]
    sequences: np.ndarray

    def of_steps(self, array: np.ndarray) -> np.ndarray:
        """(T, B, D) to (L, C, D), zero where no row stands."""
        folded = np.zeros((self.shape[0] * self.shape[1], array.shape[-1]), array.dtype)
        folded[self.places] = array.reshape(-1, array.shape[-1])[self.rows]
        return folded.reshape(*self.shape, -1)

    def of_states(self, state: np.ndarray) -> np.ndarray:
        """First states (B, S) to (C, S)."""
        folded = np.zeros((self.shape[1], state.shape[-1]), state.dtype)
        folded[self.sequences] = state
        return folded

    def back(self, folded: np.ndarray) -> np.ndarray:
        """(L, C, D) to (T, B, D)."""
        array = np.empty((len(self.rows), folded.shape[-1]), folded.dtype)
        array[self.rows] = folded.reshape(-1, folded.shape[-1])[self.places]
        return array.reshape(*self.shape_before, -1)


def find_fold(keep: np.ndarray) -> Fold | None:
    """How to fold sequences of which some states are forgotten, (T, B, 1) zero there; None where it does not pay."""
    n_steps, n_sequences = keep.shape[:2]
    if n_steps <= _FEWEST_STEPS_SAVED or keep[1:].all():
        return None
    begins = keep[:, :, 0].T == 0.0
    begins[:, 0] = True
    sequence, first = np.nonzero(begins)
    starts = sequence * n_steps + first
    lengths = np.append(starts[1:], n_steps * n_sequences) - starts
    n_longest = int(lengths.max())
    if n_steps - n_longest < _FEWEST_STEPS_SAVED:
        return None
    column, offset, n_columns = _lay(lengths.tolist(), (first == 0).tolist(), n_longest)
    within = np.arange(n_steps * n_sequences) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = np.repeat(first * n_sequences + sequence, lengths) + within * n_sequences
    places = np.repeat(offset * n_columns + column, lengths) + within * n_columns
    return Fold(rows, places, (n_longest, n_columns), (n_steps, n_sequences), column[first == 0])


def _lay(lengths: list[int], is_first: list[bool], n_longest: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The column of each piece and where it begins there, and how many columns there are.

    The first pieces of sequences stand first in their columns, as they do not begin with zeros. Each column is filled
    up with the shortest pieces left; a new one begins with the longest.
    """
    firsts = [piece for piece, first in enumerate(is_first) if first]
    left = sorted((piece for piece, first in enumerate(is_first) if not first), key=lengths.__getitem__)
    column, offset = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.int64)
    n_columns = shortest = 0
    longest = len(left)
    while n_columns < len(firsts) or shortest < longest:
        if n_columns < len(firsts):
            piece = firsts[n_columns]
        else:
            longest -= 1
            piece = left[longest]
        column[piece], end = n_columns, lengths[piece]
        while shortest < longest and end + lengths[left[shortest]] <= n_longest:
            piece = left[shortest]
            column[piece], offset[piece] = n_columns, end
            end += lengths[piece]
            shortest += 1
        n_columns += 1
    return column, offset, n_columns
