"""A normal distribution pressed beyond one bound by softplus, log(1 + eˣ).

Far from the bound an action is the normal variable itself, near it an action comes as close as a float can. What is
said of floats in `squashed_gaussian` holds here, too: an action is known to a float step of its size, of its bound or
of 1, whichever is largest, and the last four steps before the bound are one cell with the probability of all beyond.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from maze_distributions import gaussian
from maze_distributions.bounds import rounded_inwards
from maze_distributions.options import GaussianOptions
from maze_distributions.tanh_squashing import CELL, PlaceInBox, log_density_at, mean_log_two_cosh, mixture_constants
from maze_kernel.errors import SpaceError
from maze_runtime.models.device_constants import DeviceConstants
from maze_runtime.models.same_operations import same_operations

_FARTHEST_BOUND = 2.0**19
"""Where float32 numbers are a sixteenth of the unit apart in which softplus bends."""
_LOG_TWO = math.log(2.0)


@same_operations
class OneSidedGaussian:
    """low + log(1 + eᵘ) or high − log(1 + e⁻ᵘ), with u normal: an action grows with u towards either bound.

    With w = s u, s being 1 above a lower bound and −1 below an upper one, an action is d = log(1 + eʷ) away from its
    bound. Not a distribution of the catalog: it serves the dimensions of `PartlySquashedGaussian` that have one bound.

    Args:
        space: what the dimensions are part of.
        low: (D,) lower bounds, −∞ where there is an upper one.
        high: (D,) upper bounds, ∞ where there is a lower one.
        options: clamps of the log standard deviation.

    Raises:
        SpaceError: a bound so far from 0 that neighbouring float32 numbers are more than a sixteenth apart there.
    """

    def __init__(self, space: spaces.Box, low: np.ndarray, high: np.ndarray, options: GaussianOptions) -> None:
        self.options = options
        inner_low, inner_high = rounded_inwards(low, high)
        side = np.where(np.isfinite(low), np.float32(1.0), np.float32(-1.0))
        bound = np.where(side > 0, inner_low, inner_high)
        if not (np.abs(bound) <= _FARTHEST_BOUND).all():
            raise SpaceError(
                "partly-squashed-gaussian cannot work at bounds so far from 0",
                received=str(space),
                expected=f"bounds between -{_FARTHEST_BOUND:g} and {_FARTHEST_BOUND:g} in dimensions with one bound",
                owner="partly-squashed-gaussian",
                help='give actions another unit, or choose "diagonal-gaussian", which minds no bounds',
            )
        self._arrays = (side, bound)
        tensors = [torch.from_numpy(array) for array in self._arrays]
        self._constants = DeviceConstants([*tensors, mixture_constants()])

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(..., 2D) to (..., D), reparameterised."""
        return self._squash(gaussian.draw(logits, self.options, generator))

    def sample_and_log_prob(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Like `sample`, with the exact log-probability of what was drawn: log N(u; μ, σ) − log(dd/dw), (...)."""
        mean, log_std = gaussian.split(logits, self.options)
        noise = torch.empty_like(mean).normal_(generator=generator)
        rows = torch.addcmul(mean, log_std.exp(), noise)
        # dd/dw = 1 / (1 + e⁻ʷ)
        density = -0.5 * noise.square() - log_std - gaussian.HALF_LOG_TAU - logsigmoid(self._on(mean)[0] * rows)
        return self._squash(rows), density.sum(-1)

    def mode(self, logits: Tensor) -> Tensor:
        """The squashed mean, which is the median, (..., D)."""
        return self._squash(logits[..., : logits.shape[-1] // 2])

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(..., 2D), (..., D) to (...).

        log p(a) = Σ log N(w; s μ, σ) − log(1 − e⁻ᵈ),  w = d + log(1 − e⁻ᵈ)

        with σ no smaller than the float step of w. In the cell at the bound, of width m, it is Φ((wₘ − s μ) / σ) / m,
        wₘ being the cell's inner edge.
        """
        mean, log_std = gaussian.split(logits, self.options)
        side, bound = self._on(mean)
        rows = action.to(mean.dtype)
        eps = max(torch.finfo(action.dtype).eps, torch.finfo(mean.dtype).eps)
        margin = CELL * eps * bound.abs().clamp(min=1.0)
        distance = (side * (rows - bound)).clamp(min=0.0)
        nearest = torch.maximum(distance, margin)
        log_slope = -(-torch.expm1(-nearest)).log()
        place = PlaceInBox(
            value=nearest - log_slope,
            log_slope=log_slope,
            log_floor=log_slope + (eps * torch.maximum(rows.abs(), bound.abs()).clamp(min=1.0)).log(),
            side=-torch.ones_like(rows),
            is_inside=distance > margin,
            beyond=-margin.log(),
        )
        return log_density_at(side * mean, log_std, place).sum(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        """H = Σ H[N(μ, σ)] + E log(dd/dw), (...), in nats.

        log(dd/dw) = w/2 − log(2 cosh(w/2)); see `mean_log_two_cosh`.
        """
        mean, log_std = gaussian.split(logits, self.options)
        side, _bound, mixture = self._constants.on(mean.device)
        half = 0.5 * side * mean
        log_slope = half - mean_log_two_cosh(half, log_std - _LOG_TWO, mixture)
        return (log_std + log_slope + (0.5 + gaussian.HALF_LOG_TAU)).sum(-1)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`."""
        return self._squash_numpy(gaussian.draw_numpy(logits, self.options, rng))

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`."""
        return self._squash_numpy(logits[..., : logits.shape[-1] // 2])

    def _squash(self, rows: Tensor) -> Tensor:
        side, bound = self._on(rows)
        return bound + side * softplus(side * rows)

    def _squash_numpy(self, rows: np.ndarray) -> np.ndarray:
        side, bound = self._arrays
        actions: np.ndarray = bound + side * np.logaddexp(np.float32(0.0), side * rows)
        return actions.astype(np.float32)

    def _on(self, like: Tensor) -> tuple[Tensor, ...]:
        """Side and bound, (D,) each, where a tensor is."""
        return self._constants.on(like.device)[:2]
