"""The loss of one batch: recompute what the actors did, correct it with V-trace, add up the three losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maze_impala import losses
from maze_impala.batch import Batch
from maze_impala.options import ImpalaOptions
from maze_impala.vtrace import vtrace
from maze_kernel.training.gradient_step import LossFunction

STATISTICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "importance_ratio",
    "clip_fraction",
    "explained_variance",
    "grad_norm",
)
"""What a gradient step returns, in this order."""

LARGEST_LOG_RATIO = 50.0
"""In statistics: V-trace cuts what is larger, so a ratio beyond float32 must not look like a failure of the update."""


def impala_loss(policy_key: str, options: ImpalaOptions) -> LossFunction:
    """The loss of one batch; its statistics are those of `STATISTICS` without the gradient norm.

    Source: Espeholt et al. 2018, section 4.2.
    """
    clips = {"clip_rho": options.vtrace_clip_rho_threshold, "clip_pg_rho": options.vtrace_clip_pg_rho_threshold}

    def loss(model: Any, rows: Batch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        shape, weight = rows.reward.shape, rows.weight
        logits, value = model.logits_and_value(policy_key, rows.observation)
        log_prob, entropy_rows = model.distributions[policy_key].log_prob_and_entropy(logits, rows.action)
        value, log_prob = value.view(shape), log_prob.view(shape)
        log_ratio = (log_prob - rows.log_prob).detach()
        following = torch.where(rows.bootstraps, rows.bootstrap, value.detach().roll(-1, 0))
        corrected = vtrace(log_ratio, rows.reward, value, following, rows.discount, rows.continues, **clips)
        of_policy = losses.policy_gradient_loss(log_prob, corrected.advantages, weight)
        of_value = losses.value_loss(value, corrected.targets, weight)
        entropy = losses.weighted_mean(entropy_rows.view(shape), weight)
        # L = c_pi L_pi + c_v L_value − c_e H
        total = coefficients[0] * of_policy + coefficients[1] * of_value - coefficients[2] * entropy
        described = _describe(log_ratio, value.detach(), corrected.targets, weight, clips["clip_rho"])
        return total, torch.stack((of_policy.detach(), of_value.detach(), entropy.detach(), *described))

    return loss


def _describe(
    log_ratio: Tensor, value: Tensor, targets: Tensor, weight: Tensor, threshold: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """KL divergence, mean importance ratio, part of the ratios that are cut, explained variance."""
    log_ratio = log_ratio.clamp(max=LARGEST_LOG_RATIO)
    ratio = log_ratio.exp()
    cut = (ratio > threshold).to(ratio.dtype) if threshold > 0.0 else torch.zeros_like(ratio)
    return (
        losses.approximate_kl(log_ratio, weight),
        losses.weighted_mean(ratio, weight),
        losses.weighted_mean(cut, weight),
        losses.explained_variance(value, targets, weight),
    )
