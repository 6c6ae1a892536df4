"""Actions of agents that play at random, within their masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action


def sampled(action_space: spaces.Dict, masks: Mapping[str, np.ndarray], rng: np.random.Generator) -> Action:
    """An action of a Dict space of heads, uniform over what is allowed.

    Args:
        action_space: in Maze's form.
        masks: by head, (bits,) as `maze_gym.masks` has them; heads without one are free.
        rng: seeds the spaces.
    """
    action = {}
    for head, space in action_space.spaces.items():
        space.seed(int(rng.integers(2**31)))
        action[head] = space.sample() if head not in masks else _allowed(space, masks[head])
    return action


def _allowed(space: spaces.Space[Any], mask: np.ndarray) -> Any:
    """A sample within a mask, of which Gymnasium has a form of its own for each space."""
    bits = np.asarray(mask, np.int8).ravel()
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.ravel()
        flat = spaces.MultiDiscrete(sizes, dtype=space.dtype, seed=space.np_random)
        return flat.sample(tuple(np.split(bits, np.cumsum(sizes)[:-1]))).reshape(space.shape)
    if isinstance(space, spaces.MultiBinary):
        return space.sample(2 * bits.reshape(space.shape))  # 0: stays 0; 2: either
    return space.sample(bits)
