"""Numbers to draw rows in proportion to, with sums over blocks of them so that a draw reads three short ranges."""

from __future__ import annotations

import numpy as np


class Priorities:
    """Numbers ≥ 0, one a row; changing k of them and drawing k rows costs O(k ∛n), in one pass over arrays.

    Rows lie in blocks and blocks in groups, both of ∛n members; the sums of all blocks and groups are kept.

    Args:
        n_rows: n.
    """

    def __init__(self, n_rows: int) -> None:
        self._width = max(1, int(np.ceil(np.cbrt(n_rows))))
        n_groups = -(-n_rows // self._width**2)
        self._blocks = np.zeros((n_groups * self._width, self._width), np.float64)
        self._block_sums = np.zeros((n_groups, self._width), np.float64)
        self._group_sums = np.zeros(n_groups, np.float64)

    @property
    def array(self) -> np.ndarray:
        """All of them, (n and a few zeros,) float64; whoever writes into it calls `set_all` then."""
        return self._blocks.reshape(-1)

    @property
    def total(self) -> float:
        """Their sum."""
        return float(self._group_sums.sum())

    def set(self, rows: np.ndarray, values: np.ndarray | float) -> None:
        """Rows (k,) have these values now; of a row that occurs twice the last one counts."""
        self._blocks.reshape(-1)[rows] = values
        # Added up anew and not corrected: rounding does not pile up.
        blocks = rows // self._width
        self._block_sums.reshape(-1)[blocks] = np.add.reduce(self._blocks[blocks], axis=1)
        groups = blocks // self._width
        self._group_sums[groups] = np.add.reduce(self._block_sums[groups], axis=1)

    def set_all(self, values: np.ndarray) -> None:
        """The first rows have these values now, (m,); the others stay."""
        self._blocks.reshape(-1)[: len(values)] = values
        self._block_sums.reshape(-1)[:] = self._blocks.sum(axis=1)
        self._group_sums[:] = self._block_sums.sum(axis=1)

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """(size,) rows; row i has the probability of its part of the total.

        One row from each of `size` equal parts of the total. Source: Schaul et al. 2016, appendix B.2.1.
        """
        ends = self._group_sums.cumsum()
        points = (np.arange(size) + rng.random(size)) * (ends[-1] / size)
        # Rounding may carry a point to the end of everything; rows of zero are never drawn.
        group = np.searchsorted(ends, np.minimum(points, np.nextafter(ends[-1], 0.0)), side="right")
        block, rest = _member(self._block_sums[group], points - (ends[group] - self._group_sums[group]))
        block += group * self._width
        position, _ = _member(self._blocks[block], rest)
        position += block * self._width
        return position


def _member(values: np.ndarray, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of each row's values (k, m), one behind the other, a point (k,) lies in, and how far; (k,) each."""
    ends = values.cumsum(axis=1)
    # Rounding may have carried it out of the row.
    point = np.maximum(np.minimum(point, np.nextafter(ends[:, -1], 0.0)), 0.0)
    position: np.ndarray = np.add.reduce(ends <= point[:, None], axis=1)
    rows = np.arange(len(position))
    return position, point - (ends[rows, position] - values[rows, position])
