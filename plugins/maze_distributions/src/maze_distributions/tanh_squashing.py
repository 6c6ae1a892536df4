"""A normal variable pressed through tanh: its log-density and its entropy's expectation, with derivatives written out.

Autograd would find the same derivatives from some sixty small operations more, which is a third of a gradient step of a
small network. Both functions are given to it as one operation each; where a gradient flows into the action as well, the
density is left to autograd.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from maze_distributions.gaussian import HALF_LOG_TAU, log_density
from maze_runtime.models.known_derivatives import KnownDerivatives

CELL = 4.0
"""Width of the cell at a bound, in float steps of an action."""
_SCALES = (0.427144354, 0.582249588, 0.787096677, 1.063263571, 1.430779352, 1.931934097)
_WEIGHTS = (0.02764294, 0.214793712, 0.390733112, 0.280870963, 0.080598051, 0.005361223)
_LOWEST = -30.0
"""Below it the leading term of log Φ alone changes: torch's float32 gradient is wrong from −10⁴ on."""
_FARTHEST = 1e18
"""Standard deviations from the mean that are told apart: their square is a float32."""


class PlaceInBox(NamedTuple):
    """What the log-density at an action needs to know of it, (..., D) each, and of nothing else.

    Attributes:
        value: u.
        log_slope: what squashing adds to the log-density of u: −log y − log(1 − y), y being the action's place in the
            box, or −log(1 − e⁻ᵈ) at the distance d from a bound alone.
        log_floor: the logarithm of the smallest standard deviation that a float can tell apart at u.
        side: 1 above the middle of the box and −1 below, or beside a bound alone.
        is_inside: bool, False in the cell at a bound.
        beyond: what is added to log Φ in such a cell.
    """

    value: Tensor
    log_slope: Tensor
    log_floor: Tensor
    side: Tensor
    is_inside: Tensor
    beyond: Tensor | float


def log_density_at(mean: Tensor, log_std: Tensor, place: PlaceInBox) -> Tensor:
    """log N(u; μ, σ) + `log_slope` inside, log Φ(±(μ − u) / σ) + `beyond` in the cell at a bound, (..., D).

    With σ no smaller than its floor. Gradients flow into the mean and the standard deviation, and into the place where
    that needs one.
    """
    if place.value.requires_grad:
        return _plain_log_density(mean, log_std, place)
    density: Tensor = _LogDensity.apply(mean, log_std, *place)[0]  # type: ignore[no-untyped-call]
    return density


def _plain_log_density(mean: Tensor, log_std: Tensor, place: PlaceInBox) -> Tensor:
    log_std = torch.maximum(log_std, place.log_floor)
    inside = log_density(mean, log_std, place.value) + place.log_slope
    x = (mean - place.value) * (-log_std).exp() * place.side
    nearest = x.clamp(min=_LOWEST)
    log_cdf = torch.special.log_ndtr(nearest) - 0.5 * (x - nearest) * (x + nearest)
    return torch.where(place.is_inside, inside, log_cdf + place.beyond)


class _LogDensity(KnownDerivatives):
    """With z = (u − μ) / σ: ∂/∂μ = s / σ and ∂/∂ log σ = s z − 1, s being z inside; in a cell at a bound s is φ/Φ with
    the sign of its side, and no 1 is taken off. Below its floor σ has no gradient."""

    @staticmethod
    def forward(
        mean: Tensor,
        log_std: Tensor,
        value: Tensor,
        log_slope: Tensor,
        log_floor: Tensor,
        side: Tensor,
        is_inside: Tensor,
        beyond: Tensor | float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        wide = torch.maximum(log_std, log_floor)
        precision = (-wide).exp()
        z = ((value - mean) * precision).clamp(-_FARTHEST, _FARTHEST)
        square = z.square()
        inside = log_slope - wide - 0.5 * square - HALF_LOG_TAU
        x = -z * side
        nearest = x.clamp(min=_LOWEST)
        log_cdf = torch.special.log_ndtr(nearest)
        farther = nearest - x
        in_cell = 0.5 * farther * (x + nearest) + log_cdf + beyond
        # φ/Φ; where x is out of reach it grows by as much as x falls
        hazard = ((-HALF_LOG_TAU - 0.5 * nearest.square()) - log_cdf).exp() + farther
        by_mean = torch.where(is_inside, z, hazard * side) * precision
        by_log_std = torch.where(is_inside, square - 1.0, -hazard * x) * (log_std >= log_floor)
        return torch.where(is_inside, inside, in_cell), by_mean, by_log_std


def mean_log_two_cosh(mean: Tensor, log_std: Tensor, mixture: Tensor | None = None) -> Tensor:
    """E log(2 cosh u) for u ~ N(μ, σ), one a dimension, to 1e-7 for every μ and σ.

    log(2 cosh u) = E|u + v| where v is logistic with scale ½ (its second derivative is twice v's density). A logistic
    variable is a scale mixture of normals; with the six of `_SCALES` and `_WEIGHTS` (least squares over u) the
    expectation is a weighted sum of means of folded normal distributions with variances t² = σ² + s²:
    t √(2/π) exp(−μ²/2t²) + μ erf(μ / t√2).

    Args:
        mean: (..., D).
        log_std: (..., D).
        mixture: what `mixture_constants` gives, on the device of `mean`.
    """
    variances, weights, weights_by_root_pi = (mixture_constants() if mixture is None else mixture).to(mean.dtype)
    expectation: Tensor = _MeanLogTwoCosh.apply(mean, log_std, variances, weights, weights_by_root_pi)[0]  # type: ignore[no-untyped-call]
    return expectation


class _MeanLogTwoCosh(KnownDerivatives):
    """∂/∂μ = Σ w erf(μ / t√2) and ∂/∂ log σ = Σ w √(2/π) exp(−μ²/2t²) σ² / t."""

    @staticmethod
    def forward(
        mean: Tensor, log_std: Tensor, doubled_variances: Tensor, weights: Tensor, weights_by_root_pi: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        doubled = 2.0 * (2.0 * log_std).exp()
        spread = (doubled.unsqueeze(-1) + doubled_variances).sqrt()  # t √2, so that t √(2/π) is spread / √π
        ratio = mean.unsqueeze(-1) / spread
        bell = ratio.square().neg().exp()
        by_mean = ratio.erf() @ weights
        expectation = torch.addcmul((spread * bell) @ weights_by_root_pi, mean, by_mean)
        return expectation, by_mean, (bell / spread) @ weights_by_root_pi * doubled


def mixture_constants() -> Tensor:
    """(3, 6): twice the variances, the weights, and the weights / √π, of the mixture of normals."""
    weights = torch.tensor(_WEIGHTS)
    return torch.stack([2.0 * torch.tensor(_SCALES).square(), weights, weights / math.sqrt(math.pi)])
