"""Between an action as its space has it, (..., *shape), and its dimensions in one row, (..., D)."""

from __future__ import annotations

from torch import Tensor


def flatten_action(action: Tensor, shape: tuple[int, ...], size: int) -> Tensor:
    """(..., *shape) to (..., D)."""
    if len(shape) == 1:
        return action
    return action.reshape(*action.shape[: action.dim() - len(shape)], size)


def unflatten_action(rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(..., D) to (..., *shape)."""
    if len(shape) == 1:
        return rows
    return rows.reshape(*rows.shape[:-1], *shape)
