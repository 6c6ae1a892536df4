"""The losses of PPO and A2C: pure functions on tensors.

B is a minibatch of decisions. `weight` (B,) is as in `maze_runtime.training.weighted`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from maze_runtime.models.known_derivatives import KnownDerivatives
from maze_runtime.training.loss_terms import LARGEST_LOG_RATIO


def normalize_advantages(advantages: Tensor, weight: Tensor | None = None) -> Tensor:
    """(B,) advantages with mean 0 and standard deviation 1; a single one, alone or alone in its weight, as it is."""
    if weight is None:
        if len(advantages) == 1:
            return advantages
        deviation, mean = torch.std_mean(advantages, correction=0)
        return (advantages - mean) / (deviation + 1e-8)
    count = weight.sum().clamp(min=1.0)
    centred = advantages - (advantages * weight).sum() / count
    normalized = centred / (((centred.square() * weight).sum() / count).sqrt() + 1e-8)
    return torch.where(count > 1.0, normalized, advantages)


def clipped_policy_losses(log_ratio: Tensor, advantages: Tensor, clip_range: float) -> Tensor:
    """PPO's clipped surrogate of each decision, (B,), whose mean is to be minimised.

    With a positive advantage the gradient is zero beyond 1 + epsilon, for every ratio. With a negative one loss and
    gradient grow with the ratio without bound, as in the paper: beyond float32 they are infinite.

    Args:
        log_ratio: (B,) log pi(a|s) − log pi_old(a|s).
        advantages: (B,).
        clip_range: epsilon.

    Source: Schulman et al. 2017, equation 7.
    """
    low = math.log(1.0 - clip_range) if clip_range < 1.0 else -math.inf
    losses: Tensor = _ClippedPolicyLosses.apply(log_ratio, advantages, low, math.log1p(clip_range))[0]  # type: ignore[no-untyped-call]
    return losses


class _ClippedPolicyLosses(KnownDerivatives):
    @staticmethod
    def forward(log_ratio: Tensor, advantages: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        # L = −E[min(r A, clip(r, 1 − eps, 1 + eps) A)]: for A < 0 it is max(r, 1 − eps) A, else min(r, 1 + eps) A
        counted = torch.where(advantages < 0.0, log_ratio.clamp(min=low), log_ratio.clamp(max=high))
        losses = -counted.exp() * advantages
        # d r / d log r = r, where it was not clipped
        return losses, losses * (counted == log_ratio)


def value_losses(value: Tensor, returns: Tensor, old_value: Tensor, clip_range: float) -> Tensor:
    """Squared errors of (B,) values against (B,) returns.

    With a positive `clip_range` the larger of the errors of the value and of the value clipped to within that
    range of `old_value` counts, decision by decision.
    """
    error = mse_loss(value, returns, reduction="none")
    if clip_range > 0.0:
        clipped = old_value + (value - old_value).clamp(-clip_range, clip_range)
        error = torch.maximum(error, (clipped - returns).square())
    return error


def policy_changes(log_ratio: Tensor, clip_range: float) -> tuple[Tensor, Tensor]:
    """How far each of B sampled actions shows the policy to have moved, (B,) each, without gradients.

    Args:
        log_ratio: (B,) log pi(a|s) − log pi_old(a|s); larger ones count as 50.
        clip_range: epsilon.

    Returns:
        1 where the ratio is farther from 1 than epsilon, else 0; and what it adds to an estimate of KL(old ‖ new):
        never negative, finite, of low variance.

    Source: Schulman 2020, "Approximating KL divergence", estimator k3.
    """
    log_ratio = log_ratio.detach().clamp(max=LARGEST_LOG_RATIO)
    change = log_ratio.expm1()  # r − 1
    # KL ≈ E[(r − 1) − log r]
    return (change.abs() > clip_range).to(change.dtype), change - log_ratio
