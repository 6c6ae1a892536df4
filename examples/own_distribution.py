"""A distribution over actions: Laplace, whose tails reach further than those of a normal distribution."""

from __future__ import annotations

import math

import attrs
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor


@attrs.frozen(kw_only=True)
class LaplaceOptions:
    """Options of the distribution."""

    min_log_scale: float = -10.0
    """Lower clamp of the logarithm of the scale."""
    max_log_scale: float = 2.0
    """Upper clamp."""


class Laplace:
    """Independent dimensions of a Box; the logits (..., 2 D) are the means, then the log scales.

    Every method is a function of the logits; there is no object a step. Sums are over the dimensions of the action.

    Args:
        space: of the action head.
        options: clamps.
    """

    def __init__(self, space: spaces.Box, options: LaplaceOptions) -> None:
        self.options = options
        self.shape = space.shape
        self.logits_shape = (2 * math.prod(space.shape),)

    def _split(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_scale = logits.chunk(2, dim=-1)
        return mean, log_scale.clamp(self.options.min_log_scale, self.options.max_log_scale)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, *shape), with gradients: the difference of two exponential numbers is a Laplace number."""
        mean, log_scale = self._split(logits)
        first, second = torch.empty(2, *mean.shape, device=mean.device).exponential_(generator=generator)
        return (mean + log_scale.exp() * (first - second)).reshape(-1, *self.shape)

    def mode(self, logits: Tensor) -> Tensor:
        """The means, (B, *shape)."""
        return self._split(logits)[0].reshape(-1, *self.shape)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """−Σ |a − μ| / b + log 2b, (B,)."""
        mean, log_scale = self._split(logits)
        distance = (action.reshape(mean.shape) - mean).abs()
        return -(distance * (-log_scale).exp() + log_scale + math.log(2.0)).sum(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        """Σ 1 + log 2b, (B,)."""
        return (1.0 + math.log(2.0) + self._split(logits)[1]).sum(-1)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """Σ log b′/b + (b e^(−|μ − μ′| / b) + |μ − μ′|) / b′ − 1, (B,)."""
        mean, log_scale = self._split(logits)
        other_mean, other_log_scale = self._split(other_logits)
        distance = (mean - other_mean).abs()
        spread = log_scale.exp() * (-distance * (-log_scale).exp()).exp() + distance
        return (other_log_scale - log_scale + spread * (-other_log_scale).exp() - 1.0).sum(-1)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """Scales times the temperature."""
        mean, log_scale = self._split(logits)
        return torch.cat([mean, log_scale + math.log(temperature)], dim=-1)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`; rollouts call this one."""
        mean, log_scale = np.split(logits, 2, axis=-1)
        scale = np.exp(np.clip(log_scale, self.options.min_log_scale, self.options.max_log_scale))
        return (mean + scale * rng.laplace(size=mean.shape)).astype(np.float32).reshape(-1, *self.shape)

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`."""
        return np.split(logits, 2, axis=-1)[0].astype(np.float32).reshape(-1, *self.shape)
