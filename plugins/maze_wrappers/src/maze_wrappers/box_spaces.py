"""Box spaces of what pre-processors make of other Box spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError


def require_box(space: spaces.Space[Any], name: str, owner: str, *, n_dims: int = 0) -> spaces.Box:
    """The space of the observation `name` itself.

    Raises:
        SpaceError: it is no Box, or has fewer than `n_dims` dimensions.
    """
    if isinstance(space, spaces.Box) and len(space.shape) >= n_dims:
        return space
    wanted = "a Box" if not n_dims else f"a Box with at least {n_dims} dimensions"
    raise SpaceError(
        f"the observation {name!r} has a space that cannot be served",
        received=str(space),
        expected=wanted,
        owner=owner,
        help="name another observation, or give it that form by a wrapper before this one",
    )


def rearranged(space: spaces.Box, function: Callable[[np.ndarray], np.ndarray]) -> spaces.Box:
    """The space of a function that only moves elements: bounds move with them."""
    low, high = function(space.low), function(space.high)
    return spaces.Box(low, high, low.shape, space.dtype.type)


def axis_of(axis: int, n_dims: int, option: str, owner: str) -> int:
    """An axis of an observation, counted from its end: −1 … −n_dims, so that batch dimensions do not matter.

    Raises:
        SpaceError: there is no such axis.
    """
    if not -n_dims <= axis < n_dims:
        raise SpaceError(
            "the axis does not exist in the observation",
            received=str(axis),
            expected=f"−{n_dims} … {n_dims - 1}",
            option=option,
            owner=owner,
        )
    return axis if axis < 0 else axis - n_dims
