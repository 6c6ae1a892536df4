"""What losses of actor-critics have in common: the term of the policy gradient, and how the three are weighed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 50.0
"""In statistics of ratios larger ones count as this: e^89 is infinite in float32."""


def policy_gradient_losses(log_prob: Tensor, advantages: Tensor) -> Tensor:
    """The policy loss of each decision, of any shape.

    Args:
        log_prob: log pi(a|s), with gradient.
        advantages: of the same shape; those of V-trace hold the importance ratio.

    Source: Mnih et al. 2016, algorithm S3; Espeholt et al. 2018, section 4.2.
    """
    # L = −E[log pi(a|s) A]
    return -log_prob * advantages


def loss_coefficients(options: Any, epoch: int, device: torch.device) -> Tensor:
    """Weights of policy loss, value loss and entropy now, (3,); that of the entropy, which is to grow, is negative.

    Args:
        options: of the trainer: `policy_loss_coef`, `value_loss_coef`, `entropy_coef`, and `critic_burn_in_epochs`, the
            first epochs that train the critic alone.
        epoch: epochs done.
        device: of the model.
    """
    if epoch < options.critic_burn_in_epochs:
        return torch.tensor([0.0, 1.0, 0.0], device=device)
    weights = [options.policy_loss_coef, options.value_loss_coef, -options.entropy_coef]
    return torch.tensor(weights, device=device)


def weighted_loss(coefficients: Tensor, terms: Tensor) -> Tensor:
    """The loss of an actor-critic, (), from policy loss, value loss and entropy, (3,)."""
    # L = c_pi L_pi + c_v L_value − c_e H
    return coefficients.dot(terms)
