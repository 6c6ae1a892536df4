"""A2C: one gradient step on the whole of each rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_kernel.training.contract import TrainerContext
from maze_kernel.training.gradient_step import LossFunction
from maze_ppo.batch import Batch
from maze_ppo.losses import normalize_advantages, policy_gradient_loss, value_loss, weighted_mean
from maze_ppo.options import A2COptions
from maze_ppo.structured_batch import KeyedBatch
from maze_ppo.trainer import Algorithm, OnPolicyTrainer, Step

STATISTICS = ("policy_loss", "value_loss", "entropy", "grad_norm")


def make_a2c(context: TrainerContext, options: A2COptions) -> OnPolicyTrainer:
    """The trainer `a2c`. Source: Mnih et al. 2016, algorithm S3, with generalised advantage estimation."""
    return OnPolicyTrainer(context, options, Algorithm(statistics=STATISTICS, loss=a2c_loss, update=update))


def a2c_loss(policy_key: str, options: A2COptions) -> LossFunction:
    """The loss of one rollout; its statistics are those of `STATISTICS` without the gradient norm."""

    def loss(model: Any, rows: Batch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        logits, value = model.logits_and_value(policy_key, rows.observation, rows.agent_id)
        if rows.base_value is not None:
            value = value + rows.base_value
        log_prob, entropy_rows = model.distributions[policy_key].log_prob_and_entropy(logits, rows.action)
        advantages, weight = rows.advantages, rows.weight
        if options.normalize_advantages:
            advantages = normalize_advantages(advantages, weight)
        of_policy = policy_gradient_loss(log_prob, advantages, weight)
        of_value = value_loss(value, rows.returns, rows.value, 0.0, weight)
        entropy = weighted_mean(entropy_rows, weight)
        # L = c_pi L_pi + c_v L_value − c_e H
        total = coefficients[0] * of_policy + coefficients[1] * of_value - coefficients[2] * entropy
        return total, torch.stack((of_policy, of_value, entropy)).detach()

    return loss


def update(batch: Batch | KeyedBatch, step: Step, _options: A2COptions, _rng: np.random.Generator) -> list[Tensor]:
    """One step on all rows."""
    return [step(batch.whole())]
