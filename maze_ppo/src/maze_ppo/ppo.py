"""PPO: several passes of clipped updates over each rollout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maze_kernel.contracts.trainer import TrainerContext
from maze_ppo.batch import Minibatch
from maze_ppo.losses import clipped_policy_losses, normalize_advantages, policy_changes, value_losses
from maze_ppo.options import PPOOptions
from maze_ppo.trainer import OnPolicyTrainer
from maze_runtime.models.same_operations import same_operations
from maze_runtime.training.loss_terms import weighted_loss
from maze_runtime.training.weighted import weighted_mean


def make_ppo(context: TrainerContext, options: PPOOptions) -> OnPolicyTrainer:
    """The trainer `ppo`."""
    return OnPolicyTrainer(context, options, PPO(options))


@same_operations
class PPO:
    """Proximal policy optimisation. Source: Schulman et al. 2017, algorithm 1.

    Attributes:
        statistics: names of what `loss` reports of all decisions together.
        needs_log_prob: whether `loss` reads the log-probabilities of the weights that acted.
    """

    statistics = ("policy_loss", "value_loss", "entropy", "clip_fraction", "approx_kl")
    needs_log_prob = True

    def __init__(self, options: PPOOptions) -> None:
        self._options = options

    def update(self, trainer: OnPolicyTrainer) -> list[Tensor]:
        """Collect one rollout and learn from it, if it has decisions; returns the statistics of every gradient step."""
        options = self._options
        rollout = trainer.collect()
        if rollout.void.all():
            return []
        batch = trainer.estimate(rollout)
        statistics: list[Tensor] = []
        for _ in range(options.n_optimization_epochs):
            # Each minibatch moves the weights one step down the gradient of `loss`.
            of_pass = [trainer.step(minibatch) for minibatch in batch.minibatches(options.batch_size, trainer.rng)]
            statistics += of_pass
            if options.target_kl > 0.0 and self._mean_kl(of_pass) > options.target_kl:
                break
        return statistics

    def loss(self, model: Any, minibatch: Minibatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """What a minibatch is to minimise, (), and what is reported of it; equation 9.

        (5,), and behind them `KEY_STATISTICS` of each policy key where there are several.
        """
        options = self._options
        advantages, weight = minibatch.advantages, minibatch.mean_weight()
        if options.normalize_advantages:
            advantages = normalize_advantages(advantages, minibatch.weight)
        new, old_log_prob = minibatch.evaluate(model), minibatch.log_prob
        assert old_log_prob is not None  # as `needs_log_prob` says
        # log r = log pi(a|s) − log pi_old(a|s)
        log_ratio = new.log_prob - old_log_prob
        of_policy = clipped_policy_losses(log_ratio, advantages, options.clip_range)
        of_value = value_losses(new.value, minibatch.returns, minibatch.value, options.value_clip_range)
        columns = torch.stack((of_policy, of_value, new.entropy, *policy_changes(log_ratio, options.clip_range)))
        means = weighted_mean(columns, weight)
        loss = minibatch.sum_over_policies(weighted_loss(coefficients, means[:3]))
        return loss, minibatch.with_means_by_key(means.detach(), columns[:3].detach(), tuple(model.distributions))

    def _mean_kl(self, statistics: list[Tensor]) -> float:
        """Mean approximate KL divergence of some gradient steps."""
        return float(torch.stack(statistics)[:, self.statistics.index("approx_kl")].mean())
