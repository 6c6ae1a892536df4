"""Random observations to try a policy with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.env.batching import allocate
from maze_runtime.env.mask_reading import mask_names, masks_of
from maze_runtime.models.action_encoding import segments_of

_FAR = 1e6


def random_observations(observation: spaces.Dict, action: spaces.Dict, n: int, *, seed: int) -> ArrayDict:
    """n observations drawn from a space, `(n, ...)` each.

    Masks leave every choice of the action a random part of its options, one at least. A number whose bounds are
    those of its dtype comes from a standard normal distribution.
    """
    observation.seed(seed)
    rng = np.random.default_rng(seed)
    arrays = allocate(observation, n)
    for row in range(n):
        for name, value in observation.sample().items():
            arrays[name][row] = value
    heads = {mask: head for head, mask in mask_names(observation, action).items()}
    others = masks_of(observation, action) - heads.keys()
    for name, array in arrays.items():
        if name in heads:
            array[...] = _random_mask(array.shape, segments_of(action[heads[name]]), rng)
        elif name in others:
            array[:] = 1
        elif array.dtype.kind == "f":
            far = min(_FAR, float(np.finfo(array.dtype).max) / 8)
            array[:] = np.where(np.abs(array) < far, array, rng.standard_normal(array.shape))
    return arrays


def _random_mask(shape: tuple[int, ...], options: list[int], rng: np.random.Generator) -> np.ndarray:
    if sum(options) != shape[-1]:
        return np.ones(shape, np.int8)
    mask = rng.integers(0, 2, shape, np.int8)
    first = 0
    for n_options in options:
        mask[np.arange(shape[0]), first + rng.integers(0, n_options, shape[0])] = 1
        first += n_options
    return mask
