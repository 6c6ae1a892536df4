"""Which numbers of a Box have bounds, and the middle and width of those that have two."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from gymnasium import spaces

_LARGEST = float(np.finfo(np.float32).max)


class BoxBounds(NamedTuple):
    """What the bounds of a Box come to, number by number, in its shape.

    Attributes:
        below, above: bool, whether there is a bound on that side.
        is_wide: bool, whether there are both, and some way from one to the other.
        centre: float64; 0 where it is not wide.
        half_width: float64; 1 where it is not wide.
    """

    below: np.ndarray
    above: np.ndarray
    is_wide: np.ndarray
    centre: np.ndarray
    half_width: np.ndarray

    @property
    def both(self) -> np.ndarray:
        """Whether there is a bound on either side, bool."""
        return np.asarray(self.below & self.above)


def is_open_below(low: np.ndarray) -> np.ndarray:
    """Whether lower bounds are none, bool: −∞, and all from the largest float32 on, stand for "no bound"."""
    is_none: np.ndarray = np.asarray(low.astype(np.float64) <= -_LARGEST)
    return is_none


def is_open_above(high: np.ndarray) -> np.ndarray:
    """Whether upper bounds are none, bool: as `is_open_below`."""
    return is_open_below(-high.astype(np.float64))


def bounds_of(space: spaces.Box) -> BoxBounds:
    """The bounds of a Box of any dtype."""
    below, above = np.logical_not(is_open_below(space.low)), np.logical_not(is_open_above(space.high))
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    is_wide = below & above & (high > low)
    low, high = np.where(is_wide, low, -1.0), np.where(is_wide, high, 1.0)
    arrays = (below, above, is_wide, (low + high) / 2, (high - low) / 2)
    return BoxBounds(*(np.asarray(array) for array in arrays))
