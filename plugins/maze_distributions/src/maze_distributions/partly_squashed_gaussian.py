"""Normal distributions over a box that has some bounds and lacks others, each dimension pressed into what it has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_distributions import gaussian
from maze_distributions.bounds import require_float_box
from maze_distributions.gaussian import DiagonalGaussian
from maze_distributions.one_sided_gaussian import OneSidedGaussian
from maze_distributions.options import GaussianOptions
from maze_distributions.shapes import flatten_action, unflatten_action
from maze_distributions.squashed_gaussian import SquashedGaussian
from maze_runtime.env.box_bounds import bounds_of
from maze_runtime.models.device_constants import DeviceConstants
from maze_runtime.models.same_operations import same_operations

_Part = DiagonalGaussian | OneSidedGaussian | SquashedGaussian


@same_operations
class PartlySquashedGaussian:
    """`SquashedGaussian` in dimensions with two bounds, `OneSidedGaussian` in those with one, as drawn in the others.

    The logits are the means of u, then its log standard deviations.

    Args:
        space: a Box of floats of any shape.
        options: clamps of the log standard deviation.
    """

    def __init__(self, space: spaces.Space[Any], options: GaussianOptions | None = None) -> None:
        box = require_float_box(space, bounded=False, owner="partly-squashed-gaussian")
        self.options = options or GaussianOptions()
        self.shape = tuple(box.shape)
        self._size = math.prod(self.shape)
        self.logits_shape = (2 * self._size,)
        bounds = bounds_of(box)
        low = np.where(bounds.below, box.low, -np.inf).reshape(-1)
        high = np.where(bounds.above, box.high, np.inf).reshape(-1)
        n_bounds = (bounds.below.astype(np.int64) + bounds.above).reshape(-1)
        columns = [column for n in range(3) if len(column := np.flatnonzero(n_bounds == n))]
        self._parts = [self._part(box, low[column], high[column]) for column in columns]
        self._logits = [np.concatenate([column, column + self._size]) for column in columns]
        self._order = np.argsort(np.concatenate(columns))
        places = [self._order, *columns, *self._logits]
        self._places = DeviceConstants([torch.from_numpy(place) for place in places])

    def constant_logits(self, values_actions: bool) -> int:
        """How many of the last logits are learnt numbers that no observation changes (`std_from`)."""
        return self.options.constant_logits(self._size, values_actions)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, 2D) to (B, *shape), reparameterised."""
        return self._joined([part.sample(own, generator) for part, own in self._split(logits)])

    def sample_and_log_prob(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Like `sample`, with the log-probability (B,) of what was drawn, exact at any distance from the bounds."""
        drawn = [part.sample_and_log_prob(own, generator) for part, own in self._split(logits)]
        return self._joined([rows for rows, _density in drawn]), _total([density for _rows, density in drawn])

    def mode(self, logits: Tensor) -> Tensor:
        """The squashed means (the medians of the distributions), (B, *shape)."""
        return self._joined([part.mode(own) for part, own in self._split(logits)])

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """(B, 2D), (B, *shape) to (B,)."""
        return _total([part.log_prob(own, rows) for part, own, rows in self._split_with(logits, action)])

    def entropy(self, logits: Tensor) -> Tensor:
        """(B,), in nats."""
        return _total([part.entropy(own) for part, own in self._split(logits)])

    def log_prob_and_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both."""
        densities, entropies = [], []
        for part, own, rows in self._split_with(logits, action):
            densities.append(part.log_prob(own, rows))
            entropies.append(part.entropy(own))
        return _total(densities), _total(entropies)

    def kl(self, logits: Tensor, other_logits: Tensor) -> Tensor:
        """KL(logits ‖ other_logits), (B,): that of the normal distributions, for squashing is one to one."""
        return gaussian.divergence(logits, other_logits, self.options)

    def temper(self, logits: Tensor, temperature: float) -> Tensor:
        """Standard deviations of u times T: a lower T brings every sample nearer to the mode."""
        return gaussian.temper(logits, temperature, self.options)

    def sample_numpy(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Like `sample`."""
        return self._joined_numpy([part.sample_numpy(own, rng) for part, own in self._split_numpy(logits)])

    def mode_numpy(self, logits: np.ndarray) -> np.ndarray:
        """Like `mode`."""
        return self._joined_numpy([part.mode_numpy(own) for part, own in self._split_numpy(logits)])

    def _part(self, box: spaces.Box, low: np.ndarray, high: np.ndarray) -> _Part:
        """Of dimensions with the same number of bounds, (D,) each, infinite where there is none.

        Raises:
            SpaceError: bounds that float32 cannot work with.
        """
        n_bounds = int(np.isfinite(low[0])) + int(np.isfinite(high[0]))
        if n_bounds == 1:
            return OneSidedGaussian(box, low, high, self.options)
        own = spaces.Box(low, high, dtype=box.dtype)
        return SquashedGaussian(own, self.options) if n_bounds else DiagonalGaussian(own, self.options)

    def _split(self, logits: Tensor) -> list[tuple[_Part, Tensor]]:
        places = self._places.on(logits.device)[1 + len(self._parts) :]
        return [(part, logits.index_select(-1, place)) for part, place in zip(self._parts, places, strict=True)]

    def _split_with(self, logits: Tensor, action: Tensor) -> list[tuple[_Part, Tensor, Tensor]]:
        rows = flatten_action(action, self.shape, self._size)
        columns = self._places.on(rows.device)[1 : 1 + len(self._parts)]
        parts = zip(self._split(logits), columns, strict=True)
        return [(part, own, rows.index_select(-1, column)) for (part, own), column in parts]

    def _joined(self, rows: list[Tensor]) -> Tensor:
        joined = torch.cat(rows, -1)
        return unflatten_action(joined.index_select(-1, self._places.on(joined.device)[0]), self.shape)

    def _split_numpy(self, logits: np.ndarray) -> list[tuple[_Part, np.ndarray]]:
        return [(part, logits[..., place]) for part, place in zip(self._parts, self._logits, strict=True)]

    def _joined_numpy(self, rows: list[np.ndarray]) -> np.ndarray:
        joined = np.concatenate(rows, -1)[..., self._order]
        return joined.reshape(*joined.shape[:-1], *self.shape)


def _total(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum(0)
