"""Which observation masks which action head, and whether a mask forbids an action that was taken nevertheless."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def mask_names(observation: spaces.Dict, action: spaces.Dict) -> dict[str, str]:
    """Head to the observation that masks it: `<head>_mask`, or `action_mask` for the only head that can be masked."""
    maskable = {head: sizes for head, space in action.spaces.items() if (sizes := _sizes(space)) is not None}
    names = {head: f"{head}_mask" for head in maskable}
    if len(maskable) == 1:
        names = {head: name if name in observation.spaces else "action_mask" for head, name in names.items()}
    return {
        head: name
        for head, name in names.items()
        if name in observation.spaces and np.prod(observation.spaces[name].shape or ()) == sum(maskable[head])
    }


def forbids(mask: np.ndarray, space: spaces.Space[Any], action: np.ndarray) -> bool:
    """Whether a mask forbids an action of the space that it masks.

    Where nothing is allowed nothing is forbidden: only an observation that nobody decides on may look like that.

    Args:
        mask: one entry a choice, nonzero where it is allowed; of MultiBinary one a bit that may be set.
        space: Discrete, MultiDiscrete or MultiBinary.
        action: a value of it.
    """
    bits = mask.reshape(-1)
    if isinstance(space, spaces.MultiBinary):
        return bool(bits.any() and action.reshape(-1)[bits == 0].any())
    indices = (action - space.start).reshape(-1)  # type: ignore[attr-defined]
    first = 0
    for size, index in zip(_sizes(space) or (), indices.tolist(), strict=True):
        if not bits[first + index] and bits[first : first + size].any():
            return True
        first += size
    return False


def _sizes(space: spaces.Space[Any]) -> list[int] | None:
    """Entries of the mask for each dimension; None for a space that cannot be masked."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in np.ravel(space.nvec)]
    return [1] * int(np.prod(space.shape)) if isinstance(space, spaces.MultiBinary) else None
