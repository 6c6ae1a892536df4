"""Blocks that read numbers of classes or nodes where what they read may be an amount."""

from __future__ import annotations

import warnings

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import MazeWarning
from maze_perception.graph import GraphBuilder
from maze_runtime.env.graph_links import links_of
from maze_runtime.models.observation_encoding import is_bytes


def warn_of_amounts(graph: GraphBuilder, observation: spaces.Dict) -> None:
    """Warn where a block reads an observation as numbers (`PerceptionBlock.numbered`) that its Box does not promise.

    Integers are such numbers, unless they are bytes that the encoder divides by 255; other numbers are where they are
    bounded by −1 or 0 and by the last number, as no scaled observation is.
    """
    for block, key, n_numbers in graph.numbered():
        space = observation.spaces.get(key)
        if isinstance(space, spaces.Box) and not _are_numbers(space, n_numbers, key in links_of(observation)):
            warnings.warn(
                f"the block {block!r} reads the observation {key!r} as numbers from 0 to {n_numbers - 1}, and it may "
                f"hold others: it is a {space}. What a wrapper scales is no such number, nor are bytes up to 255, "
                f"which are read as parts of 1. Leave it out of observation-normalization, exclude = [{key!r}], or "
                "let its space say these bounds",
                MazeWarning,
                stacklevel=2,
            )


def _are_numbers(space: spaces.Box, n_numbers: int, are_links: bool) -> bool:
    if np.issubdtype(space.dtype, np.integer):
        return are_links or not is_bytes(space)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    return bool((low >= -1).all() and (high >= n_numbers - 1).all() and (high <= n_numbers).all())
