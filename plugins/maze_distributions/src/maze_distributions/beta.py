"""A beta distribution over a bounded box (Chou et al. 2017).

Computed in float64 inside, for the gamma functions of large arguments cancel. Actions count as no closer to a bound
than a few float steps of the box's width, so log-probabilities and ratios near the bounds stay finite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import softplus

from maze_distributions.bounds import Bounds, require_float_box
from maze_distributions.shapes import flatten_action, unflatten_action
from maze_runtime.models.same_operations import same_operations

_TINY = 1e-30


def _log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
    """log B(α, β)."""
    return alpha.lgamma() + beta.lgamma() - (alpha + beta).lgamma()


@same_operations
class Beta:
    """low + (high − low)·x with x ~ Beta(1 + softplus(a), 1 + softplus(b)); the logits are all a, then all b.

    Both concentrations exceed one, so the density has one mode and vanishes at the bounds (at worst it is uniform).

    Args:
        space: a Box of floats with finite bounds, of any shape.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        box = require_float_box(space, bounded=True, owner="beta")
        self.shape = tuple(box.shape)
        self._size = math.prod(self.shape)
        self._bounds = Bounds(box.low, box.high)
        self.logits_shape = (2 * self._size,)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, 2D) to (B, *shape), reparameterised through implicit gradients of two gamma draws."""
        alpha, beta = self._concentrations(logits)
        first = torch._standard_gamma(alpha, generator=generator)
        second = torch._standard_gamma(beta, generator=generator)
        unit = (first / (first + second)).to(logits.dtype)
        return unflatten_action(self._bounds.to_box(unit), self.shape)

    def mode(self, logits: Tensor) -> Tensor:
        """The most likely value, (B, *shape); the middle where the density is flat."""
        # Written out, because ONNX runtimes have no softplus of float64: softplus(x) = max(x, 0) + log(1 + e^−|x|)
        wide = logits.double()
        first, second = (wide.clamp_min(0.0) + (-wide.abs()).exp().log1p() + _TINY).chunk(2, -1)
        return unflatten_action(self._bounds.to_box((first / (first + second)).to(logits.dtype)), self.shape)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, 2D), (B, *shape) to (B,).

        log p = Σ (α − 1) log x + (β − 1) log(1 − x) − log B(α, β) − log(high − low)
        """
        alpha, beta = self._concentrations(logits)
        rows = flatten_action(action, self.shape, self._size).to(logits.dtype)
        step = self._bounds.step(action.dtype, logits.dtype, rows.device)
        unit = self._bounds.to_unit(rows, 4.0 * step).double()
        density = (alpha - 1.0) * unit.log() + (beta - 1.0) * (-unit).log1p() - _log_normaliser(alpha, beta)
        return (density.sum(-1) - self._bounds.log_width_sum).to(logits.dtype)

    def entropy(self, logits: Tensor) -> Tensor:
        """(B, 2D) to (B,), in nats.

        H = Σ log B(α, β) − (α − 1) ψ(α) − (β − 1) ψ(β) + (α + β − 2) ψ(α + β) + log(high − low)
        """
        alpha, beta = self._concentrations(logits)
        total = alpha + beta
        per_dimension = (
            _log_normaliser(alpha, beta)
            - (alpha - 1.0) * alpha.digamma()
            - (beta - 1.0) * beta.digamma()
            + (total - 2.0) * total.digamma()
        )
        return (per_dimension.sum(-1) + self._bounds.log_width_sum).to(logits.dtype)

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        return self.log_prob(logits, action), self.entropy(logits)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,).

        KL = log B(α′, β′) − log B(α, β) + (α − α′) ψ(α) + (β − β′) ψ(β) + (α′ − α + β′ − β) ψ(α + β)
        """
        alpha, beta = self._concentrations(logits)
        other_alpha, other_beta = self._concentrations(other_logits)
        per_dimension = (
            _log_normaliser(other_alpha, other_beta)
            - _log_normaliser(alpha, beta)
            + (alpha - other_alpha) * alpha.digamma()
            + (beta - other_beta) * beta.digamma()
            + (other_alpha - alpha + other_beta - beta) * (alpha + beta).digamma()
        )
        return per_dimension.sum(-1).to(logits.dtype)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """The density to the power 1/T, normalised: α − 1 and β − 1 divided by T, so the mode stays."""
        excess = (softplus(logits.double()) / temperature).clamp_min(_TINY)
        return (excess + (-(-excess).expm1()).log()).to(logits.dtype)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`."""
        excess = np.logaddexp(0.0, logits, dtype=np.float64)
        unit = rng.beta(1.0 + excess[..., : self._size], 1.0 + excess[..., self._size :]).astype(np.float32)
        return self._bounds.to_box_numpy(unit).reshape(*logits.shape[:-1], *self.shape)

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`."""
        excess = np.logaddexp(0.0, logits, dtype=np.float64) + _TINY
        first, second = excess[..., : self._size], excess[..., self._size :]
        unit = (first / (first + second)).astype(np.float32)
        return self._bounds.to_box_numpy(unit).reshape(*logits.shape[:-1], *self.shape)

    def _concentrations(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        alpha, beta = (1.0 + softplus(logits.double())).chunk(2, -1)
        return alpha, beta
