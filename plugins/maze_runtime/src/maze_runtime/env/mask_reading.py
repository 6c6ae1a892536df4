"""Which observations are masks, of which action head, and whether one forbids an action that was taken nevertheless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

ANY_HEAD = "action_mask"
"""Masks the only head that can be masked, whatever that is called, and is never anything but a mask."""


def mask_names(observation: spaces.Dict, action: spaces.Dict) -> dict[str, str]:
    """Head to the observation that masks it: `<head>_mask`, or `action_mask` for the only head that can be masked."""
    maskable = {head: sizes for head, space in action.spaces.items() if (sizes := _sizes(space)) is not None}
    names = {head: f"{head}_mask" for head in maskable}
    if len(maskable) == 1:
        names = {head: name if name in observation.spaces else ANY_HEAD for head, name in names.items()}
    return {
        head: name
        for head, name in names.items()
        if name in observation.spaces and np.prod(observation.spaces[name].shape or ()) == sum(maskable[head])
    }


def action_masks(observation: spaces.Dict, action: spaces.Dict) -> set[str]:
    """The observations that mask an action head; `action_mask` among them, though it is not clear which head."""
    return {*mask_names(observation, action).values(), *({ANY_HEAD} & observation.spaces.keys())}


def masks_of(observation: spaces.Dict, action: spaces.Dict) -> set[str]:
    """The observations that are masks: of an action head, or of the items of another observation.

    The latter say which rows of it exist: `<name>_mask` (N,) those of `<name>` or `<name>s` (N, …). What else ends with
    `_mask` is an observation like all others.
    """
    return {*action_masks(observation, action), *_item_masks(observation)}


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


def _item_masks(observation: spaces.Dict) -> Iterator[str]:
    for name, space in observation.spaces.items():
        stem = name.removesuffix("_mask")
        items = [observation.spaces[one] for one in (stem, f"{stem}s") if one in observation.spaces and one != name]
        if any(space.shape and own.shape and space.shape == own.shape[:1] for own in items):
            yield name


def _sizes(space: spaces.Space[Any]) -> list[int] | None:
    """Entries of the mask for each dimension; None for a space that cannot be masked."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in np.ravel(space.nvec)]
    return [1] * int(np.prod(space.shape)) if isinstance(space, spaces.MultiBinary) else None
