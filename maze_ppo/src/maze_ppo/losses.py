"""The losses of PPO and A2C: pure functions on tensors.

B is a minibatch of decisions. `weight` (B,) leaves decisions out (0) without changing any shape; None counts all.
"""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 50.0
"""Where a larger ratio changes no loss and no gradient, it stops here: e^89 is infinite in float32."""


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of (B,) values by weight."""
    return values.mean() if weight is None else (values * weight).sum() / weight.sum().clamp(min=1.0)


def normalize_advantages(advantages: Tensor, weight: Tensor | None = None) -> Tensor:
    """(B,) advantages with mean 0 and standard deviation 1; a single one becomes 0."""
    centred = advantages - weighted_mean(advantages, weight)
    return centred / (weighted_mean(centred.square(), weight).sqrt() + 1e-8)


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
    # For A ≥ 0 the minimum below is the clipped branch long before; with an infinite ratio its gradient would be 0 · ∞
    ratio = torch.where(advantages < 0.0, log_ratio, log_ratio.clamp(max=LARGEST_LOG_RATIO)).exp()
    # L = −E[min(r A, clip(r, 1 − eps, 1 + eps) A)]
    return -torch.minimum(ratio * advantages, ratio.clamp(1.0 - clip_range, 1.0 + clip_range) * advantages)


def policy_gradient_losses(log_prob: Tensor, advantages: Tensor) -> Tensor:
    """A2C's policy loss of each decision, (B,). Source: Mnih et al. 2016, algorithm S3.

    Args:
        log_prob: (B,).
        advantages: (B,).
    """
    # L = −E[log pi(a|s) A]
    return -log_prob * advantages


def value_losses(value: Tensor, returns: Tensor, old_value: Tensor, clip_range: float) -> Tensor:
    """Squared errors of (B,) values against (B,) returns.

    With a positive `clip_range` the larger of the errors of the value and of the value clipped to within that
    range of `old_value` counts, decision by decision.
    """
    error = (value - returns).square()
    if clip_range > 0.0:
        clipped = old_value + (value - old_value).clamp(-clip_range, clip_range)
        error = torch.maximum(error, (clipped - returns).square())
    return error


def approximate_kl(log_ratio: Tensor, weight: Tensor | None = None) -> Tensor:
    """KL(old ‖ new) estimated from (B,) log-ratios of sampled actions: never negative, finite, low variance.

    Log-ratios count as 50 at most.

    Source: Schulman 2020, "Approximating KL divergence", estimator k3.
    """
    # KL ≈ E[(r − 1) − log r]
    log_ratio = log_ratio.clamp(max=LARGEST_LOG_RATIO)
    return weighted_mean(log_ratio.expm1() - log_ratio, weight)


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """1 − Var(returns − value) / Var(returns): 1 is perfect, 0 no better than a constant; NaN-free."""
    variance = returns.var(correction=0)
    return 1.0 - (returns - value).var(correction=0) / variance.clamp(min=1e-8)
