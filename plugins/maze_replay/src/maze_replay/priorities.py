"""Numbers to draw rows in proportion to, with sums over blocks of them so that a draw reads two short ranges."""

from __future__ import annotations

import numpy as np


class Priorities:
    """Numbers ≥ 0, one a row; changing k of them and drawing k rows costs O(k √n).

    Args:
        n_rows: n.
    """

    def __init__(self, n_rows: int) -> None:
        self._width = max(1, int(np.ceil(np.sqrt(n_rows))))
        self._blocks = np.zeros((-(-n_rows // self._width), self._width), np.float64)
        self._sums = np.zeros(len(self._blocks), np.float64)

    @property
    def array(self) -> np.ndarray:
        """All of them, (n and a few zeros,) float64; whoever writes into it calls `set_all` then."""
        return self._blocks.reshape(-1)

    @property
    def total(self) -> float:
        """Their sum."""
        return float(self._sums.sum())

    def set(self, rows: np.ndarray, values: np.ndarray | float) -> None:
        """Rows (k,) have these values now; of a row that occurs twice the last one counts."""
        self._blocks.reshape(-1)[rows] = values
        # Added up anew and not corrected: rounding does not pile up.
        blocks = rows // self._width
        self._sums[blocks] = self._blocks[blocks].sum(axis=1)

    def set_all(self, values: np.ndarray) -> None:
        """The first rows have these values now, (m,); the others stay."""
        self._blocks.reshape(-1)[: len(values)] = values
        self._sums[:] = self._blocks.sum(axis=1)

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """(size,) rows; row i has the probability of its part of the total.

        One row from each of `size` equal parts of the total. Source: Schaul et al. 2016, appendix B.2.1.
        """
        ends = self._sums.cumsum()
        points = (np.arange(size) + rng.random(size)) * (ends[-1] / size)
        # Rounding may carry a point to the end of everything, or out of its block; rows of zero are never drawn.
        block = np.searchsorted(ends, np.minimum(points, np.nextafter(ends[-1], 0.0)), side="right")
        inside = self._blocks[block].cumsum(axis=1)
        rest = (points - (ends[block] - self._sums[block])).clip(0.0, np.nextafter(inside[:, -1], 0.0))
        position = (inside <= rest[:, None]).sum(axis=1)
        rows: np.ndarray = block * self._width + position
        return rows
