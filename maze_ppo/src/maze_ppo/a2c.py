"""A2C: one gradient step on the whole of each rollout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maze_kernel.contracts.trainer import TrainerContext
from maze_ppo.batch import Minibatch
from maze_ppo.losses import normalize_advantages, value_losses
from maze_ppo.options import A2COptions
from maze_ppo.trainer import OnPolicyTrainer
from maze_runtime.models.same_operations import same_operations
from maze_runtime.training.loss_terms import policy_gradient_losses, weighted_loss
from maze_runtime.training.weighted import weighted_mean


def make_a2c(context: TrainerContext, options: A2COptions) -> OnPolicyTrainer:
    """The trainer `a2c`."""
    return OnPolicyTrainer(context, options, A2C(options))


@same_operations
class A2C:
    """Synchronous advantage actor-critic, with generalised advantage estimation.

    Source: Mnih et al. 2016, algorithm S3.

    Attributes:
        statistics: names of what `loss` reports of all decisions together.
        needs_log_prob: whether `loss` reads the log-probabilities of the weights that acted.
    """

    statistics = ("policy_loss", "value_loss", "entropy")
    needs_log_prob = False

    def __init__(self, options: A2COptions) -> None:
        self._options = options

    def update(self, trainer: OnPolicyTrainer) -> list[Tensor]:
        """Collect one rollout and learn from it, if it has decisions; returns the statistics of the one step."""
        rollout = trainer.collect()
        if rollout.void.all():
            return []
        batch = trainer.estimate(rollout)
        # One step down the gradient of `loss`.
        return [trainer.step(batch.whole())]

    def loss(self, model: Any, minibatch: Minibatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """What a rollout is to minimise, (), and what is reported of it.

        (3,), and behind them `KEY_STATISTICS` of each policy key where there are several.
        """
        advantages, weight = minibatch.advantages, minibatch.mean_weight()
        if self._options.normalize_advantages:
            advantages = normalize_advantages(advantages, minibatch.weight)
        new = minibatch.evaluate(model)
        of_policy = policy_gradient_losses(new.log_prob, advantages)
        of_value = value_losses(new.value, minibatch.returns, minibatch.value, 0.0)
        columns = torch.stack((of_policy, of_value, new.entropy))
        means = weighted_mean(columns, weight)
        loss = minibatch.sum_over_policies(weighted_loss(coefficients, means))
        return loss, minibatch.with_means_by_key(means.detach(), columns.detach(), tuple(model.distributions))
