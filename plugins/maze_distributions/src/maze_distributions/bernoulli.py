"""Independent yes-or-no decisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import softplus

from maze_distributions.shapes import flatten_action, unflatten_action
from maze_kernel.errors import SpaceError
from maze_runtime.models.masking import MASKED_BELOW, MASKED_LOGIT
from maze_runtime.models.same_operations import same_operations


@same_operations
class Bernoulli:
    """One bit a dimension, each 1 with probability sigmoid(logit).

    Args:
        space: a MultiBinary space of any shape; log-probability, entropy and KL are sums over its dimensions.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.MultiBinary):
            raise SpaceError("bernoulli cannot serve this action space", received=str(space), expected="MultiBinary")
        self.shape = tuple(space.shape)
        self._size = math.prod(self.shape)
        self.logits_shape = (self._size,)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, D) to (B, *shape) int8."""
        noise = torch.empty_like(logits).uniform_(generator=generator)
        return unflatten_action((noise < logits.sigmoid()).to(torch.int8), self.shape)

    def mode(self, logits: Tensor) -> Tensor:
        """1 where it is more likely than 0, (B, *shape) int8."""
        return unflatten_action((logits > 0).to(torch.int8), self.shape)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, D), (B, *shape) to (B,).

        log p(a) = a·l − log(1 + eˡ)
        """
        bits = flatten_action(action, self.shape, self._size).to(logits.dtype)
        return (bits * logits - softplus(logits)).sum(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        """(B, D) to (B,), in nats.

        H = log(1 + eˡ) − l·sigmoid(l); even in l, so computed at −|l| where nothing cancels.
        """
        negative = -logits.abs()
        return (softplus(negative) - negative * negative.sigmoid()).sum(-1)

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        return self.log_prob(logits, action), self.entropy(logits)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,).

        KL = p (l − l′) − log(1 + eˡ) + log(1 + eˡ′)
        """
        divergence = logits.sigmoid() * (logits - other_logits) - softplus(logits) + softplus(other_logits)
        return divergence.sum(-1)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """sigmoid(logits / T); forbidden bits stay so."""
        tempered = (logits / temperature).clamp(MASKED_LOGIT, -MASKED_LOGIT)
        return torch.where(logits <= MASKED_BELOW, logits, tempered)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`: u < sigmoid(l) is logit(u) < l, and logit(u) is a standard logistic draw."""
        draws = rng.logistic(size=logits.shape)
        return (draws < logits).astype(np.int8).reshape(*logits.shape[:-1], *self.shape)

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`."""
        return (logits > 0).astype(np.int8).reshape(*logits.shape[:-1], *self.shape)
