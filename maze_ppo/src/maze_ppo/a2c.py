"""A2C: one gradient step on the whole of each rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_kernel.training.contract import TrainerContext
from maze_kernel.training.loss_terms import weighted_loss
from maze_ppo.batch import Batch
from maze_ppo.keyed_batch import KeyedBatch
from maze_ppo.losses import normalize_advantages, policy_gradient_loss, value_loss, weighted_mean
from maze_ppo.objective import Evaluation, Objective
from maze_ppo.options import A2COptions
from maze_ppo.trainer import Algorithm, OnPolicyTrainer, Step

STATISTICS = ("policy_loss", "value_loss", "entropy", "grad_norm")


def make_a2c(context: TrainerContext, options: A2COptions) -> OnPolicyTrainer:
    """The trainer `a2c`. Source: Mnih et al. 2016, algorithm S3, with generalised advantage estimation."""
    return OnPolicyTrainer(context, options, Algorithm(statistics=STATISTICS, objective=a2c_objective, update=update))


def a2c_objective(options: A2COptions) -> Objective:
    """What a rollout is to minimise; its statistics are those of `STATISTICS` without the gradient norm."""

    def objective(new: Evaluation, rows: Any, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        advantages, weight = rows.advantages, rows.weight
        if options.normalize_advantages:
            advantages = normalize_advantages(advantages, weight)
        of_policy = policy_gradient_loss(new.log_prob, advantages, weight)
        of_value = value_loss(new.value, rows.returns, rows.value, 0.0, weight)
        entropy = weighted_mean(new.entropy, weight)
        total = weighted_loss(coefficients, of_policy, of_value, entropy)
        return total, torch.stack((of_policy, of_value, entropy)).detach()

    return objective


def update(batch: Batch | KeyedBatch, step: Step, _options: A2COptions, _rng: np.random.Generator) -> list[Tensor]:
    """One step on all rows."""
    return [step(batch.whole())]
