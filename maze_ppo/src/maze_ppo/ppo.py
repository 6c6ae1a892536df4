"""PPO: several passes of clipped updates over each rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_kernel.training.contract import TrainerContext
from maze_kernel.training.loss_terms import weighted_loss
from maze_ppo.batch import Batch
from maze_ppo.keyed_batch import KeyedBatch
from maze_ppo.losses import approximate_kl, clipped_policy_loss, normalize_advantages, value_loss, weighted_mean
from maze_ppo.objective import Evaluation, Objective
from maze_ppo.options import PPOOptions
from maze_ppo.trainer import Algorithm, OnPolicyTrainer, Step

STATISTICS = ("policy_loss", "value_loss", "entropy", "clip_fraction", "approx_kl", "grad_norm")


def make_ppo(context: TrainerContext, options: PPOOptions) -> OnPolicyTrainer:
    """The trainer `ppo`. Source: Schulman et al. 2017, algorithm 1."""
    algorithm = Algorithm(statistics=STATISTICS, objective=ppo_objective, update=update)
    return OnPolicyTrainer(context, options, algorithm)


def ppo_objective(options: PPOOptions) -> Objective:
    """What a minibatch is to minimise; its statistics are those of `STATISTICS` without the gradient norm.

    Source: Schulman et al. 2017, equation 9.
    """

    def objective(new: Evaluation, rows: Any, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        advantages, weight = rows.advantages, rows.weight
        if options.normalize_advantages:
            advantages = normalize_advantages(advantages, weight)
        log_ratio = new.log_prob - rows.log_prob
        of_policy = clipped_policy_loss(log_ratio, advantages, options.clip_range, weight)
        of_value = value_loss(new.value, rows.returns, rows.value, options.value_clip_range, weight)
        entropy = weighted_mean(new.entropy, weight)
        total = weighted_loss(coefficients, of_policy, of_value, entropy)
        with torch.no_grad():
            clipped = ((log_ratio.exp() - 1.0).abs() > options.clip_range).to(log_ratio.dtype)
            statistics = torch.stack(
                (of_policy, of_value, entropy, weighted_mean(clipped, weight), approximate_kl(log_ratio, weight))
            )
        return total, statistics.detach()

    return objective


def update(batch: Batch | KeyedBatch, step: Step, options: PPOOptions, rng: np.random.Generator) -> list[Tensor]:
    """`n_optimization_epochs` passes in minibatches; stops early beyond `target_kl`."""
    statistics: list[Tensor] = []
    for _ in range(options.n_optimization_epochs):
        n_before = len(statistics)
        statistics += [step(rows) for rows in batch.minibatches(options.batch_size, rng)]
        if options.target_kl > 0.0:
            mean_kl = torch.stack(statistics[n_before:])[:, STATISTICS.index("approx_kl")].mean()
            if float(mean_kl) > options.target_kl:
                break
    return statistics
