"""Uniformly random actions for a whole batch, in array operations; masks are respected."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.env.tick import ArrayDict
from maze_kernel.errors import SpaceError

UNBOUNDED_SCALE = 1.0
"""Standard deviation of random actions where a Box has no bound, as in Gymnasium's own sampling."""


def sample_actions(space: spaces.Dict, n: int, rng: np.random.Generator, observation: ArrayDict) -> ArrayDict:
    """One random action an environment: name to `(n, ...)` arrays in the space's dtypes.

    Args:
        space: the action space of one policy key.
        observation: that key's observations; the mask of a head `move` is `move_mask`, or `action_mask` where
            there is one head only.

    Raises:
        SpaceError: a head is no Box, Discrete, MultiDiscrete or MultiBinary.
    """
    only = len(space.spaces) == 1
    actions = {}
    for head, leaf in space.spaces.items():
        mask = observation.get(f"{head}_mask", observation.get("action_mask") if only else None)
        actions[head] = _sample(leaf, n, rng, mask)
    return actions


def _sample(leaf: spaces.Space[Any], n: int, rng: np.random.Generator, mask: np.ndarray | None) -> np.ndarray:
    if isinstance(leaf, spaces.Discrete):
        return (_discrete(int(leaf.n), n, rng, mask) + int(leaf.start)).astype(leaf.dtype)
    if isinstance(leaf, spaces.MultiDiscrete):
        sizes = np.ravel(leaf.nvec)
        parts = [None] * sizes.size if mask is None else np.split(mask, np.cumsum(sizes)[:-1], axis=-1)
        columns = [_discrete(int(size), n, rng, part) for size, part in zip(sizes, parts, strict=True)]
        return (np.stack(columns, -1).reshape(n, *leaf.shape) + leaf.start).astype(leaf.dtype)
    if isinstance(leaf, spaces.MultiBinary):
        return rng.integers(0, 2, (n, *leaf.shape), dtype=np.int8).astype(leaf.dtype)
    if isinstance(leaf, spaces.Box):
        return _box(leaf, n, rng)
    raise SpaceError(
        "no random action can be drawn from this space",
        received=str(leaf),
        expected="Box, Discrete, MultiDiscrete or MultiBinary",
        owner="maze-kernel environments",
    )


def _discrete(size: int, n: int, rng: np.random.Generator, mask: np.ndarray | None) -> np.ndarray:
    if mask is None:
        return rng.integers(0, size, n)
    # The largest of independent uniform numbers over the allowed choices is uniform among them.
    return np.where(np.reshape(mask, (n, size)) != 0, rng.random((n, size)), -1.0).argmax(-1)


def _box(leaf: spaces.Box, n: int, rng: np.random.Generator) -> np.ndarray:
    shape = (n, *leaf.shape)
    if np.issubdtype(leaf.dtype, np.integer):
        return rng.integers(leaf.low, leaf.high, shape, endpoint=True).astype(leaf.dtype)
    low, high = leaf.low.astype(np.float64), leaf.high.astype(np.float64)
    below, above = np.isfinite(low), np.isfinite(high)
    drawn = rng.normal(0.0, UNBOUNDED_SCALE, shape)
    tail = rng.exponential(UNBOUNDED_SCALE, shape)
    drawn = np.where(below & ~above, np.where(below, low, 0.0) + tail, drawn)
    drawn = np.where(above & ~below, np.where(above, high, 0.0) - tail, drawn)
    bounded = below & above
    lowest, width = np.where(bounded, low, 0.0), np.where(bounded, high, 0.0) - np.where(bounded, low, 0.0)
    drawn = np.where(bounded, lowest + width * rng.random(shape), drawn)
    return np.clip(drawn.astype(leaf.dtype), leaf.low, leaf.high)
