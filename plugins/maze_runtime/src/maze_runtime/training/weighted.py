"""Means over decisions of which some count more than others, or not at all.

`weight` leaves decisions out (0) without changing any shape; None counts all alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_VARIANCE = 1e-12
"""Of what is explained, as a part of its mean square: less of it is rounding."""


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of values by weight, over the dimensions that the weight has.

    Args:
        values: (..., *W).
        weight: W, such as (B,) or (T, B). None: one dimension, (B,).

    Returns:
        (...); 0 where nothing has any weight.
    """
    if weight is None:
        return values.mean(-1)
    return (values * weight).sum(tuple(range(-weight.dim(), 0))) / weight.sum().clamp(min=1.0)


def explained_variance(value: Tensor, targets: Tensor, weight: Tensor | None = None) -> Tensor:
    """1 − Var(targets − value) / Var(targets) of columns of one shape, (): 1 is perfect, 0 no better than a constant.

    It is 0 where the targets vary by less than a millionth of their size: float32 knows no more of them.
    """
    variance, least = _variance(targets, weight), LEAST_VARIANCE * weighted_mean(targets.square(), weight)
    explained = 1.0 - _variance(targets - value, weight) / variance
    return torch.where(variance > least, explained, torch.zeros_like(explained))


def _variance(values: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return values.var(correction=0)
    return weighted_mean((values - weighted_mean(values, weight)).square(), weight)
