"""Values of actions that consist of one or several choices, as functions of tensors.

B is the batch, K the columns of all choices one behind the other. The value of an action is the sum over its choices,
so the best action is the best option of each. Source: Sunehag et al. 2018, section 3 (value decomposition).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot, smooth_l1_loss

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
    """One-hots (B, K) of the greatest value of each choice; masked ones have values that are never the greatest."""
    parts = [one_hot(part.argmax(-1), n) for part, n in zip(q.split(segments, dim=-1), segments, strict=True)]
    chosen = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    return chosen.to(q.dtype)


def centred(advantages: Tensor, segments: tuple[int, ...]) -> Tensor:
    """A − mean A over the allowed options of each choice, (B, K). Source: Wang et al. 2016, equation 9."""
    parts = [_centred(part) for part in advantages.split(segments, dim=-1)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _centred(advantages: Tensor) -> Tensor:
    allowed = (advantages > _ALLOWED_ABOVE).to(advantages.dtype)
    mean = (advantages * allowed).sum(-1, keepdim=True) / allowed.sum(-1, keepdim=True).clamp(min=1.0)
    return advantages - mean


def value_of(q: Tensor, chosen: Tensor) -> Tensor:
    """Q(s, a) (B,) of the options that one-hots (B, K) say."""
    return (q * chosen).sum(-1)


def weighted_huber(error_free: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Mean of w · Huber(y − Q), () ; squares up to an error of 1, linear beyond. Source: Mnih et al. 2015, methods.

    Args:
        error_free: Q(s, a), (B,).
        target: y, (B,).
        weights: (B,).
    """
    return (weights * smooth_l1_loss(error_free, target, reduction="none")).mean()
