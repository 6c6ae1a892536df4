"""How much entropy is worth to each policy key, and how that is tuned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.training.flat_adam import FlatAdam
from maze_sac.losses import temperature_gradient
from maze_sac.options import SACOptions


class Temperatures:
    """α of K policy keys, moved until their policies have the entropy that is wanted.

    Source: Haarnoja et al. 2018b, equation 18.

    Args:
        options: of the trainer.
        target_entropies: of the keys, in nats.
        device: of the networks.

    Attributes:
        log_alpha: (K,) log α; changed in place.
        optimizer: of log α.
        are_tuned: they move at all.
    """

    def __init__(self, options: SACOptions, target_entropies: Sequence[float], device: torch.device) -> None:
        start = torch.full((len(target_entropies),), options.entropy_coef, device=device).log()
        flat = FlatParameters(nn.ParameterList([nn.Parameter(start)]))
        self.log_alpha = flat.data
        self.optimizer = FlatAdam(flat, epsilon=1e-8)
        self.optimizer.learning_rate.fill_(options.entropy_coef_lr)
        self.are_tuned = options.entropy_tuning
        self._target_entropies = torch.tensor(list(target_entropies), device=device)

    def gradient(self, entropies: Tensor) -> Tensor:
        """By log α, (K,); of `entropies` (K,)."""
        return temperature_gradient(entropies, self._target_entropies)

    def step(self, entropies: Tensor) -> None:
        """Move them after an update of policies of `entropies` (K,), if they are tuned."""
        if self.are_tuned:
            self.optimizer.flat.grad.copy_(self.gradient(entropies))
            self.optimizer.step()
