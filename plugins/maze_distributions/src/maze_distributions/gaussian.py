"""Independent normal distributions, and what the squashed form shares with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_distributions.bounds import require_float_box
from maze_distributions.options import GaussianOptions
from maze_distributions.shapes import flatten_action, unflatten_action
from maze_runtime.models.same_operations import same_operations

HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


def split(logits: Tensor, options: GaussianOptions) -> tuple[Tensor, Tensor]:
    """(..., 2D) to mean and clamped log standard deviation, (..., D) each."""
    mean, log_std = logits.chunk(2, -1)
    if options.initial_log_std:
        log_std = log_std + options.initial_log_std
    return mean, log_std.clamp(options.min_log_std, options.max_log_std)


def split_numpy(logits: np.ndarray, options: GaussianOptions) -> tuple[np.ndarray, np.ndarray]:
    """Like `split`."""
    size = logits.shape[-1] // 2
    log_std = logits[..., size:]
    if options.initial_log_std:
        log_std = log_std + np.float32(options.initial_log_std)
    log_std = np.minimum(np.maximum(log_std, options.min_log_std), options.max_log_std)
    return logits[..., :size], log_std


def log_density(mean: Tensor, log_std: Tensor, value: Tensor) -> Tensor:
    """log N(x; μ, σ) = −½ ((x − μ) / σ)² − log σ − ½ log 2π, one a dimension."""
    return -0.5 * ((value - mean) * (-log_std).exp()).square() - log_std - HALF_LOG_TAU


def divergence(logits: Tensor, other_logits: Tensor, options: GaussianOptions) -> Tensor:
    """KL = Σ log σ′/σ + (σ² + (μ − μ′)²) / 2σ′² − ½, (...)."""
    mean, log_std = split(logits, options)
    other_mean, other_log_std = split(other_logits, options)
    ratio = log_std - other_log_std
    shift = (mean - other_mean) * (-other_log_std).exp()
    return (0.5 * ((2.0 * ratio).exp() + shift.square() - 1.0) - ratio).sum(-1)


def temper(logits: Tensor, temperature: float, options: GaussianOptions) -> Tensor:
    """σ·T, where the clamps leave room."""
    mean, log_std = split(logits, options)
    return torch.cat([mean, log_std + (math.log(temperature) - options.initial_log_std)], -1)


def draw(logits: Tensor, options: GaussianOptions, generator: torch.Generator | None) -> Tensor:
    """(..., 2D) to (..., D) samples, reparameterised: μ + σ ε."""
    mean, log_std = split(logits, options)
    noise = torch.empty_like(mean).normal_(generator=generator)
    return torch.addcmul(mean, log_std.exp(), noise)


def draw_numpy(logits: np.ndarray, options: GaussianOptions, rng: np.random.Generator) -> np.ndarray:
    """μ + σ ε in one new array."""
    mean, log_std = split_numpy(logits, options)
    noise = rng.standard_normal(mean.shape, dtype=np.float32)
    noise *= np.exp(log_std)
    noise += mean
    return noise


@same_operations
class DiagonalGaussian:
    """A normal distribution a dimension; the logits are the means, then the log standard deviations.

    Samples are not clipped to the bounds of the space: clip them in a wrapper where the environment minds.

    Args:
        space: a Box of floats of any shape.
        options: clamps of the log standard deviation.
    """

    def __init__(self, space: spaces.Space[Any], options: GaussianOptions | None = None) -> None:
        box = require_float_box(space, bounded=False, owner="diagonal-gaussian")
        self.options = options or GaussianOptions()
        self.shape = tuple(box.shape)
        self._size = math.prod(self.shape)
        self.logits_shape = (2 * self._size,)

    def constant_logits(self, values_actions: bool) -> int:
        """How many of the last logits are learnt numbers that no observation changes (`std_from`)."""
        return self.options.constant_logits(self._size, values_actions)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, 2D) to (B, *shape), reparameterised: μ + σ ε."""
        mean, log_std = split(logits, self.options)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return unflatten_action(mean + log_std.exp() * noise, self.shape)

    def sample_and_log_prob(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Like `sample`, with the log-probability (B,) of what was drawn."""
        sample = self.sample(logits, generator)
        return sample, self.log_prob(logits, sample)

    def mode(self, logits: Tensor) -> Tensor:
        """The means, (B, *shape)."""
        return unflatten_action(logits[..., : self._size], self.shape)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, 2D), (B, *shape) to (B,)."""
        mean, log_std = split(logits, self.options)
        return log_density(mean, log_std, flatten_action(action, self.shape, self._size)).sum(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        """H = Σ log σ + ½ log 2πe, (B,), in nats."""
        return split(logits, self.options)[1].sum(-1) + self._size * (0.5 + HALF_LOG_TAU)

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        mean, log_std = split(logits, self.options)
        density = log_density(mean, log_std, flatten_action(action, self.shape, self._size))
        return density.sum(-1), log_std.sum(-1) + self._size * (0.5 + HALF_LOG_TAU)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,)."""
        return divergence(logits, other_logits, self.options)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """Standard deviations times T."""
        return temper(logits, temperature, self.options)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`."""
        return draw_numpy(logits, self.options, rng).reshape(*logits.shape[:-1], *self.shape)

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`; a copy."""
        return logits[..., : self._size].astype(np.float32).reshape(*logits.shape[:-1], *self.shape)
