"""A normal distribution pressed into bounds by tanh (Haarnoja et al. 2018, appendix C), with the affine term.

What a float knows of u: an action is stored to about one float step of the box's width, and u only to as much more as
tanh is flat there. `log_prob` asks for no more. A narrower distribution counts as wide as that. The last four steps
before a bound are one cell, which stands for every u beyond and has the probability of all of them, for the inverse of
tanh is unbounded there. So probabilities, their ratios and their gradients stay finite for every mean and every
standard deviation, and a mean that runs beyond a bound changes nothing any more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import softplus

from maze_distributions import gaussian
from maze_distributions.bounds import Bounds, require_float_box
from maze_distributions.options import GaussianOptions
from maze_distributions.shapes import flatten_action, unflatten_action
from maze_distributions.tanh_squashing import CELL, PlaceInBox, log_density_at, mean_log_two_cosh, mixture_constants
from maze_runtime.models.device_constants import DeviceConstants
from maze_runtime.models.same_operations import same_operations

_LOG_TWO = math.log(2.0)
_TWO_LOG_TWO = 2.0 * _LOG_TWO
_LOG_CELL = math.log(CELL)


@same_operations
class SquashedGaussian:
    """low + (high − low)·(tanh u + 1)/2 with u normal; the logits are the means, then the log standard deviations of u.

    Args:
        space: a Box of floats with finite bounds, of any shape.
        options: clamps of the log standard deviation.
    """

    def __init__(self, space: spaces.Space[Any], options: GaussianOptions | None = None) -> None:
        box = require_float_box(space, bounded=True, owner="squashed-gaussian")
        self.options = options or GaussianOptions()
        self.shape = tuple(box.shape)
        self._size = math.prod(self.shape)
        self._bounds = Bounds(box.low, box.high)
        self._mixture = DeviceConstants([mixture_constants()])
        self.logits_shape = (2 * self._size,)

    def constant_logits(self, values_actions: bool) -> int:
        """How many of the last logits are learnt numbers that no observation changes (`std_from`)."""
        return self.options.constant_logits(self._size, values_actions)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, 2D) to (B, *shape), reparameterised."""
        return self._squash(gaussian.draw(logits, self.options, generator))

    def sample_and_log_prob(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Like `sample`, with the exact log-probability (B,) of what was drawn, at any distance from the bounds.

        `log_prob` inverts tanh and so knows an action near a bound only to the precision of a float; here u is known.

            log p(a) = Σ log N(u; μ, σ) − log(1 − tanh² u) − log((high − low)/2);  Haarnoja et al. 2018b, equation 26
        """
        mean, log_std = gaussian.split(logits, self.options)
        noise = torch.empty_like(mean).normal_(generator=generator)
        rows = torch.addcmul(mean, log_std.exp(), noise)
        # log N(u; μ, σ) = −½ ε² − log σ − ½ log 2π;  log(1 − tanh² u) = 2 (log 2 − u − log(1 + e^−2u))
        density = torch.add(-0.5 * noise.square() - log_std, rows + softplus(-2.0 * rows), alpha=2.0)
        constant = self._size * (-_LOG_TWO - gaussian.HALF_LOG_TAU) - self._bounds.log_width_sum
        return self._squash(rows), density.sum(-1) + constant

    def mode(self, logits: Tensor) -> Tensor:
        """The squashed mean (the median of the distribution, as SAC takes it), (B, *shape)."""
        return self._squash(logits[..., : self._size])

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, 2D), (B, *shape) to (B,).

        log p(a) = Σ log N(u; μ, σ) − log(dy/du) − log(da/dy),  y = (tanh u + 1)/2

        with σ no smaller than the float step of u. In the cell at a bound, of width m in y, N · du/dy is
        Φ((μ − u_m) / σ) / m at the upper one and Φ((u_m − μ) / σ) / m at the lower, u_m being the cell's inner edge.
        """
        mean, log_std = gaussian.split(logits, self.options)
        return self._density(mean, log_std, action)

    def entropy(self, logits: Tensor) -> Tensor:
        """H = Σ H[N(μ, σ)] + E log(1 − tanh² u) + log((high − low)/2), (B,), in nats.

        No closed form exists; the expectation is the deterministic approximation of `mean_log_two_cosh`.
        """
        return self._entropy(*gaussian.split(logits, self.options))

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        mean, log_std = gaussian.split(logits, self.options)
        return self._density(mean, log_std, action), self._entropy(mean, log_std)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,): that of the normal distributions, for squashing is one to one."""
        return gaussian.divergence(logits, other_logits, self.options)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """Standard deviations of u times T: a lower T brings every sample nearer to the mode."""
        return gaussian.temper(logits, temperature, self.options)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`."""
        return self._squash_numpy(gaussian.draw_numpy(logits, self.options, rng))

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`."""
        return self._squash_numpy(logits[..., : self._size].astype(np.float32))

    def _squash(self, rows: Tensor) -> Tensor:
        return unflatten_action(self._bounds.scale(rows.tanh()), self.shape)

    def _squash_numpy(self, rows: np.ndarray) -> np.ndarray:
        return self._bounds.scale_numpy(np.tanh(rows, out=rows)).reshape(*rows.shape[:-1], *self.shape)

    def _density(self, mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        density = log_density_at(mean, log_std, self._place(action, mean.dtype))
        return density.sum(-1) - self._size * _LOG_TWO - self._bounds.log_width_sum

    def _place(self, action: Tensor, dtype: torch.dtype) -> PlaceInBox:
        rows = flatten_action(action, self.shape, self._size).to(dtype)
        step = self._bounds.step(action.dtype, dtype, rows.device)
        margin = CELL * step
        unit = self._bounds.to_unit(rows, margin)
        log_upper, log_lower = unit.log(), (-unit).log1p()
        # u = atanh(2y − 1) = ½ (log y − log(1 − y));  dy/du = 2 y (1 − y), whose log 2 `_density` takes off
        log_slope = -log_upper - log_lower
        # σ ≥ step · du/dy
        log_step = step.log() if isinstance(step, Tensor) else math.log(step)
        from_middle = unit - 0.5
        return PlaceInBox(
            value=0.5 * (log_upper - log_lower),
            log_slope=log_slope,
            log_floor=log_slope + (log_step - _LOG_TWO),
            side=from_middle.sign(),
            is_inside=from_middle.abs() < 0.5 - margin,
            # beyond: log Φ(±(μ − u_m) / σ) − log m, and the log 2 that is taken off
            beyond=_LOG_TWO - _LOG_CELL - log_step,
        )

    def _entropy(self, mean: Tensor, log_std: Tensor) -> Tensor:
        # log(1 − tanh² u) = 2 log 2 − 2 log(2 cosh u)
        (mixture,) = self._mixture.on(mean.device)
        per_dimension = log_std - 2.0 * mean_log_two_cosh(mean, log_std, mixture)
        constant = 0.5 + gaussian.HALF_LOG_TAU + _TWO_LOG_TWO - _LOG_TWO
        return per_dimension.sum(-1) + self._size * constant + self._bounds.log_width_sum
