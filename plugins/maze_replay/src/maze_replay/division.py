"""Where rows of a ring go when it is made into two of half its length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Division(NamedTuple):
    """Ring r becomes 2r, with its newer rows, and 2r + 1, with the older ones; both begin at row 0, the oldest first.

    Attributes:
        place: (R, L) int64, flat index of each row in the new rings; −1: given up.
        newer, older: (R,) rows of both parts; the pending row is the last of the newer ones.
    """

    place: np.ndarray
    newer: np.ndarray
    older: np.ndarray


def divide_rings(filled: np.ndarray, cursor: np.ndarray, n_rows: int) -> Division:
    """Divide rings.

    Args:
        filled: (R,) rows written before the pending one, at most L.
        cursor: (R,) the pending row.
        n_rows: L; where it is odd, full rings give up their oldest row.
    """
    half, index = n_rows // 2, np.arange(len(filled))[:, None]
    used = np.minimum(filled + 1, n_rows)
    newer = np.minimum(used, half)
    older = np.minimum(used - newer, half)
    oldest = np.where(filled < n_rows, 0, cursor + 1)
    age = (np.arange(n_rows) - oldest[:, None]) % n_rows
    among_newer = age - (used - newer)[:, None]
    among_older = among_newer + older[:, None]
    place = np.where(among_older >= 0, (2 * index + 1) * half + among_older, -1)
    place = np.where(among_newer >= 0, 2 * index * half + among_newer, place)
    return Division(np.where(age < used[:, None], place, -1), newer, older)
