"""How the three terms of an actor-critic's loss are weighed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
