"""Values of actions that consist of one or several choices, as functions of tensors.

B is the batch, K the columns of all choices one behind the other, C the choices. An action is C columns, one of each
choice. Its value is the sum over them, so the best action is the best option of each. Source: Sunehag et al. 2018,
section 3 (value decomposition).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from maze_runtime.models.masking import MASKED_LOGIT

_ALLOWED_ABOVE = MASKED_LOGIT / 2


def of_bits(logits: Tensor) -> Tensor:
    """Values of 0 and of 1 of every bit, (B, D) to (B, 2D): ∓ half of the logit, so that its sign says the better one.

    A masked bit can only be 0, and is worth nothing.
    """
    allowed = logits > _ALLOWED_ABOVE
    half = logits.where(allowed, torch.zeros_like(logits)) / 2
    return torch.stack((-half, half.where(allowed, torch.full_like(half, MASKED_LOGIT))), dim=-1).flatten(1)


def best_options(q: Tensor, segments: tuple[int, ...]) -> Tensor:
    """Columns (B, C) of the greatest value of each choice; masked ones have values that are never the greatest."""
    if len(segments) == 1:
        return q.argmax(-1, keepdim=True)
    starts = itertools.accumulate(segments[:-1], initial=0)
    parts = zip(torch.split(q, list(segments), dim=-1), starts, strict=True)
    return torch.cat([part.argmax(-1, keepdim=True) + start for part, start in parts], dim=-1)


def greatest_value(q: Tensor, segments: tuple[int, ...]) -> Tensor:
    """max_a Q(s, a), (B,)."""
    parts = [part.amax(-1) for part in (torch.split(q, list(segments), dim=-1) if len(segments) > 1 else (q,))]
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def centred(advantages: Tensor, segments: tuple[int, ...]) -> Tensor:
    """A − mean A over the allowed options of each choice, (B, K). Source: Wang et al. 2016, equation 9."""
    parts = [
        _centred(part)
        for part in (torch.split(advantages, list(segments), dim=-1) if len(segments) > 1 else (advantages,))
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _centred(advantages: Tensor) -> Tensor:
    allowed = (advantages > _ALLOWED_ABOVE).to(advantages.dtype)
    mean = (advantages * allowed).sum(-1, keepdim=True) / allowed.sum(-1, keepdim=True).clamp(min=1.0)
    return advantages - mean


def value_of(q: Tensor, chosen: Tensor) -> Tensor:
    """Q(s, a) (B,) of the options in columns (B, C)."""
    of_choices = q.gather(-1, chosen)
    return of_choices.squeeze(-1) if chosen.shape[-1] == 1 else of_choices.sum(-1)


def weighted_huber(q: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    """Mean of w · Huber(y − Q), () ; squares up to an error of 1, linear beyond. Source: Mnih et al. 2015, methods.

    Args:
        q: Q(s, a), (B,).
        target: y, (B,).
        weights: (B,); None: all 1.
    """
    if weights is None:
        return smooth_l1_loss(q, target)
    return (weights * smooth_l1_loss(q, target, reduction="none")).mean()


class ChoiceColumns:
    """Actions as the columns of their options.

    Args:
        heads: choices, in the order of their columns.
        segments: options of each choice.
    """

    def __init__(self, heads: Mapping[str, spaces.Space[Any]], segments: tuple[int, ...]) -> None:
        self._starts = np.array([*itertools.accumulate(segments[:-1], initial=0)])
        # Bits have no first value to subtract.
        self._firsts = {name: np.asarray(getattr(head, "start", 0)).reshape(-1) for name, head in heads.items()}

    def __call__(self, action: Mapping[str, np.ndarray]) -> np.ndarray:
        """Arrays (B, ...) by head to columns (B, C) int64."""
        parts = [action[name].reshape(len(action[name]), -1) - first for name, first in self._firsts.items()]
        columns = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        found: np.ndarray = columns.astype(np.int64) + self._starts
        return found
