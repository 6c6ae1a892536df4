"""The loss of one batch: recompute what the actors did, correct it with V-trace, add up the three losses."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from maze_impala import losses
from maze_impala.batch import VTraceBatch
from maze_impala.options import ImpalaOptions
from maze_impala.structured_batch import StructuredVTraceBatch
from maze_impala.vtrace import VTrace, vtrace
from maze_runtime.rollout.decision_tensors import DecisionTensors
from maze_runtime.training.gradient_step import LossFunction
from maze_runtime.training.loss_terms import LARGEST_LOG_RATIO, policy_gradient_losses, weighted_loss
from maze_runtime.training.weighted import explained_variance, weighted_mean

STATISTICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "importance_ratio",
    "clip_fraction",
    "explained_variance",
)
"""What the loss of a batch reports, in this order, and behind it the mean value."""

KEY_STATISTICS = ("policy_loss", "value_loss", "entropy", "value")
"""What it reports behind them of each policy key where there are several; NaN for a key without a decision."""


def impala_loss(policy_key: str, options: ImpalaOptions) -> LossFunction:
    """The loss of one batch of a flat environment; its statistics are those of `STATISTICS`, then the mean value.

    Source: Espeholt et al. 2018, section 4.2.
    """

    def loss(model: Any, batch: VTraceBatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        shape = batch.reward.shape
        logits, value = model.logits_and_value(policy_key, batch.observation)
        log_prob, entropy = model.distributions[policy_key].log_prob_and_entropy(logits, batch.action)
        value = value.view(shape)
        # V(x_{t+1}): of the next row, or of what bootstraps the last one and truncated episodes
        next_value = torch.where(batch.bootstraps, batch.bootstrap, value.detach().roll(-1, 0))
        learner = Learner(log_prob.view(shape), entropy.view(shape), value)
        corrected, statistics = _correct(learner, next_value, batch, options)
        terms = _terms(learner, corrected, batch.weight)
        return weighted_loss(coefficients, terms), torch.cat([terms.detach(), statistics])

    return loss


def structured_loss(options: ImpalaOptions) -> LossFunction:
    """The loss of one batch of a structured environment: the sum of the losses of all policy keys.

    Each is a mean over the decisions of its key. `STATISTICS` and the value are means over all decisions, and what
    follows them, `KEY_STATISTICS`, over those of a key.
    """

    def loss(model: Any, batch: StructuredVTraceBatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        of_keys = [_of_key(model, key, own) for key, own in batch.decisions.items()]
        log_prob, entropy, value = (torch.cat(column)[batch.order] for column in zip(*of_keys, strict=True))
        # V = V of the decision before + what a delta critic gives; other critics give V
        value = value + batch.before
        # V(x′) of each decision's successor x′
        next_value = torch.cat([value.detach(), batch.bootstrap])[batch.successor]
        learner = Learner(log_prob, entropy, value)
        corrected, statistics = _correct(learner, next_value, batch, options)
        # Σ_k mean_k = K (Σ share · term) / Σ share, with K keys and share 1 / M_k
        total = len(batch.decisions) * weighted_loss(coefficients, _terms(learner, corrected, batch.share))
        terms = _terms(learner, corrected, batch.weight)
        described = torch.cat([terms.detach(), statistics])
        if len(model.distributions) == 1:
            return total, described
        with torch.no_grad():
            by_key = _means_by_key(tuple(model.distributions), learner, corrected, batch)
        return total, torch.cat([described, by_key])

    return loss


def _means_by_key(
    policy_keys: tuple[str, ...], learner: Learner, corrected: VTrace, batch: StructuredVTraceBatch
) -> Tensor:
    """`KEY_STATISTICS` of each key, key by key, (4 K,)."""
    columns = torch.stack(
        (
            policy_gradient_losses(learner.log_prob, corrected.advantages),
            losses.value_losses(learner.value, corrected.targets),
            learner.entropy,
            learner.value,
        )
    )
    means, first = {}, 0
    for key, own in batch.decisions.items():
        # share is 1 / M_k for the decisions of key k
        is_own = (batch.order >= first) & (batch.order < first + own.n_rows())
        means[key] = (columns * batch.share * is_own).sum(1)
        first += own.n_rows()
    absent = columns.new_full((len(KEY_STATISTICS),), float("nan"))
    return torch.cat([means.get(key, absent) for key in policy_keys])


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
    learner: Learner, next_value: Tensor, batch: VTraceBatch | StructuredVTraceBatch, options: ImpalaOptions
) -> tuple[VTrace, Tensor]:
    """V-trace, and statistics of it; `next_value` is V of each decision's successor."""
    clips = {"clip_rho": options.vtrace_clip_rho_threshold, "clip_pg_rho": options.vtrace_clip_pg_rho_threshold}
    # log rho = log pi(a|x) − log mu(a|x)
    log_ratio, value = (learner.log_prob - batch.log_prob).detach(), learner.value.detach()
    corrected = vtrace(log_ratio, batch.reward, value, next_value, batch.discount, batch.continues, **clips)
    return corrected, _describe(log_ratio, value, corrected.targets, batch.weight, clips["clip_rho"])


def _terms(learner: Learner, corrected: VTrace, weight: Tensor) -> Tensor:
    """Policy loss, value loss and entropy: means over decisions by weight, (3,)."""
    of_policy = policy_gradient_losses(learner.log_prob, corrected.advantages)
    of_value = losses.value_losses(learner.value, corrected.targets)
    return weighted_mean(torch.stack((of_policy, of_value, learner.entropy)), weight)


def _describe(log_ratio: Tensor, value: Tensor, targets: Tensor, weight: Tensor, threshold: float) -> Tensor:
    """KL divergence, mean importance ratio, part of the ratios that are cut, explained variance, mean value; (5,)."""
    # V-trace cuts what is larger, so a ratio beyond float32 must not look like a failure of the update
    log_ratio = log_ratio.clamp(max=LARGEST_LOG_RATIO)
    ratio = log_ratio.exp()
    cut = (ratio > threshold).to(ratio.dtype) if threshold > 0.0 else torch.zeros_like(ratio)
    described = (
        losses.approximate_kl(log_ratio, weight),
        weighted_mean(ratio, weight),
        weighted_mean(cut, weight),
        explained_variance(value, targets, weight),
        weighted_mean(value, weight),
    )
    return torch.stack(described)
