"""Whether a distribution keeps to a mask: tried out, once, with masks that leave one action."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from maze_kernel.contracts.model import Distribution
from maze_kernel.errors import SpaceError
from maze_runtime.models.masking import MASKED_LOGIT, mask_logits_numpy

_MOST_ROWS = 8


def n_choices(space: spaces.Space[Any]) -> int:
    """The entries of a mask: one a choice, of all dimensions; 0 for a space that cannot be masked."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    return math.prod(space.shape) if isinstance(space, spaces.MultiBinary) else 0


def require_obeys_masks(head: str, space: spaces.Space[Any], distribution: Distribution) -> None:
    """Refuse a distribution that takes forbidden choices, or whose logits are not one a choice.

    Args:
        head: the action head, for the message.
        space: Discrete, MultiDiscrete or MultiBinary.
        distribution: of the head; `MASKED_LOGIT` stands where a choice is forbidden.

    Raises:
        SpaceError: naming head and distribution.
    """
    fault = _fault(space, distribution)
    if fault is not None:
        kind = type(distribution)
        raise SpaceError(
            f"action head {head!r} has a mask, which its distribution {kind.__qualname__} does not obey",
            received=fault,
            expected=f"one logit a choice, and a choice whose logit is {MASKED_LOGIT:g} never taken",
            owner=kind.__module__,
            help="leave the head its default distribution, take the mask out of the observation "
            '(gym: action_mask = "none"), or treat logits as unnormalised log-probabilities',
        )


def _fault(space: spaces.Space[Any], distribution: Distribution) -> str | None:
    n_logits = math.prod(distribution.logits_shape)
    if n_logits != n_choices(space):
        return f"{n_logits} logits for a mask of {n_choices(space)} entries"
    mask, expected = _only_one_left(space)
    rng = np.random.default_rng(0)
    logits = mask_logits_numpy(rng.normal(size=mask.shape).astype(np.float32), mask)
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            tensor, action = torch.from_numpy(logits), torch.from_numpy(expected)
            taken = {
                "sample_numpy": distribution.sample_numpy(logits.copy(), rng),
                "mode_numpy": distribution.mode_numpy(logits.copy()),
                "sample": distribution.sample(tensor, torch.Generator().manual_seed(0)).numpy(),
                "mode": distribution.mode(tensor).numpy(),
            }
            numbers = {
                "log_prob": distribution.log_prob(tensor, action),
                "entropy": distribution.entropy(tensor),
            }
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for name, actions in taken.items():
        if not np.array_equal(actions, expected):
            return f"{name} takes forbidden choices"
    return next((f"{name} is not finite" for name, value in numbers.items() if not value.isfinite().all()), None)


def _only_one_left(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Masks (R, L) that leave one action each, and these actions (R, …)."""
    n_rows = min(_MOST_ROWS, n_choices(space))
    if isinstance(space, spaces.MultiBinary):
        return np.zeros((n_rows, n_choices(space)), np.int8), np.zeros((n_rows, *space.shape), space.dtype)
    discrete = isinstance(space, spaces.Discrete)
    sizes = np.array([space.n]) if discrete else np.ravel(space.nvec)  # type: ignore[attr-defined]
    choices = np.linspace(0, sizes - 1, n_rows).astype(np.int64)
    masks = [np.eye(size, dtype=np.int8)[column] for size, column in zip(sizes, choices.T, strict=True)]
    actions = choices.reshape(n_rows, *space.shape) + np.asarray(space.start)  # type: ignore[attr-defined,misc]
    return np.concatenate(masks, axis=1), actions
