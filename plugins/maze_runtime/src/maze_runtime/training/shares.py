"""How many rows of several kinds go into each of some parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def shares(n_rows: Sequence[int], n_parts: int) -> list[list[int]]:
    """For each kind, how many of its rows each part gets: numbers that differ by one at most, and add up.

    Each kind's larger shares lie evenly in between. Where that leaves a part without a row of any kind, they lie one
    kind's behind the other's instead, so that no part is empty that need not be.

    Args:
        n_rows: of each kind.
        n_parts: 1 or more.

        >>> shares([5, 3], 4)
        [[1, 1, 1, 2], [0, 1, 1, 1]]
        >>> shares([2, 1], 3)
        [[1, 1, 0], [0, 0, 1]]
    """
    ends = [[n * i // n_parts for i in range(n_parts + 1)] for n in n_rows]
    sizes = [[last - first for first, last in itertools.pairwise(own)] for own in ends]
    if all(map(any, zip(*sizes, strict=True))):
        return sizes
    next_part = 0
    for n, own in zip(n_rows, sizes, strict=True):
        least, n_larger = divmod(n, n_parts)
        own[:] = [least + ((part - next_part) % n_parts < n_larger) for part in range(n_parts)]
        next_part = (next_part + n_larger) % n_parts
    return sizes
