"""The loss of one batch: recompute what the actors did, correct it with V-trace, add up the three losses."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from maze_impala import losses
from maze_impala.batch import Batch
from maze_impala.options import ImpalaOptions
from maze_impala.stream_batch import StreamBatch
from maze_impala.vtrace import VTrace, vtrace
from maze_kernel.rollout.decision_tensors import DecisionTensors
from maze_kernel.training.gradient_step import LossFunction
from maze_kernel.training.loss_terms import weighted_loss

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
    """The loss of one batch of a flat environment; its statistics are those of `STATISTICS` without the gradient norm.

    Source: Espeholt et al. 2018, section 4.2.
    """

    def loss(model: Any, rows: Batch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        shape = rows.reward.shape
        logits, value = model.logits_and_value(policy_key, rows.observation)
        log_prob, entropy = model.distributions[policy_key].log_prob_and_entropy(logits, rows.action)
        value = value.view(shape)
        following = torch.where(rows.bootstraps, rows.bootstrap, value.detach().roll(-1, 0))
        learner = Learner(log_prob.view(shape), entropy.view(shape), value)
        corrected, statistics = _correct(learner, following, rows, options)
        terms = _terms(learner, corrected, rows.weight)
        return weighted_loss(coefficients, *terms), torch.stack((*(term.detach() for term in terms), *statistics))

    return loss


def stream_loss(options: ImpalaOptions) -> LossFunction:
    """The loss of one batch of a structured environment: the sum of the losses of all policy keys.

    Each is a mean over the decisions of its key; the statistics are means over all decisions.
    """

    def loss(model: Any, rows: StreamBatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        parts = [_of_key(model, key, own) for key, own in rows.keys.items()]
        log_prob, entropy, value = (torch.cat(column)[rows.order] for column in zip(*parts, strict=True))
        value = value + rows.before
        following = torch.cat([value.detach(), rows.bootstrap])[rows.following]
        learner = Learner(log_prob, entropy, value)
        corrected, statistics = _correct(learner, following, rows, options)
        # Σ_k mean_k = K (Σ_rows share · term) / Σ_rows share, with K keys and share 1 / R_k
        total = len(rows.keys) * weighted_loss(coefficients, *_terms(learner, corrected, rows.share))
        terms = _terms(learner, corrected, rows.weight)
        return total, torch.stack((*(term.detach() for term in terms), *statistics))

    return loss


class Learner(NamedTuple):
    """What the learner makes of the actors' decisions, with gradients, in the shape of the batch."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


def _of_key(model: Any, policy_key: str, decisions: DecisionTensors) -> Learner:
    logits, value = model.logits_and_value(policy_key, decisions.observation, decisions.agent_id)
    log_prob, entropy = model.distributions[policy_key].log_prob_and_entropy(logits, decisions.action)
    return Learner(log_prob, entropy, value)


def _correct(
    learner: Learner, following: Tensor, rows: Batch | StreamBatch, options: ImpalaOptions
) -> tuple[VTrace, tuple[Tensor, ...]]:
    """V-trace, and statistics of it; `following` is V of what followed each row."""
    clips = {"clip_rho": options.vtrace_clip_rho_threshold, "clip_pg_rho": options.vtrace_clip_pg_rho_threshold}
    log_ratio, value = (learner.log_prob - rows.log_prob).detach(), learner.value.detach()
    corrected = vtrace(log_ratio, rows.reward, value, following, rows.discount, rows.continues, **clips)
    return corrected, _describe(log_ratio, value, corrected.targets, rows.weight, clips["clip_rho"])


def _terms(learner: Learner, corrected: VTrace, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Policy loss, value loss and entropy: means over rows by weight."""
    return (
        losses.policy_gradient_loss(learner.log_prob, corrected.advantages, weight),
        losses.value_loss(learner.value, corrected.targets, weight),
        losses.weighted_mean(learner.entropy, weight),
    )


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
