"""The affine map between a bounded box and the interval its distribution lives on.

Everything is computed in float32, as networks are: the bounds of a float64 box are rounded inwards, so that no action
leaves it, and what an action is known to follows from the coarsest of the types it went through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.errors import SpaceError
from maze_runtime.models.device_constants import DeviceConstants

_FEWEST_STEPS = 16.0


def rounded_inwards(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest float32 that is no smaller than `low`, and the largest that is no larger than `high`."""
    with np.errstate(over="ignore"):
        inner_low, inner_high = low.astype(np.float32), high.astype(np.float32)
    inner_low = np.where(inner_low < low, np.nextafter(inner_low, np.float32(np.inf)), inner_low)
    return inner_low, np.where(inner_high > high, np.nextafter(inner_high, -np.float32(np.inf)), inner_high)


def _step_at(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A float32 step at the bound that is farther from 0."""
    step: np.ndarray = np.finfo(np.float32).eps * np.maximum(np.abs(low), np.abs(high))
    return step


def require_float_box(space: spaces.Space[Any], *, bounded: bool, owner: str) -> spaces.Box:
    """The space as a Box of floats that `owner` can serve.

    Raises:
        SpaceError: another space, integers, or (where `bounded`) an interval that is infinite, empty or too narrow for
            float32.
    """
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise SpaceError(
            f"{owner} cannot serve this action space", received=str(space), expected="a Box of floats", owner=owner
        )
    if not bounded:
        return space
    low, high = rounded_inwards(space.low, space.high)
    with np.errstate(over="ignore", invalid="ignore"):
        width, is_finite = high - low, np.isfinite(space.high.astype(np.float32) - space.low.astype(np.float32))
    if not is_finite.all() or not (width > _FEWEST_STEPS * _step_at(low, high)).all():
        raise SpaceError(
            f"{owner} needs finite bounds with low < high in every dimension",
            received=str(space),
            expected="low and high finite, low < high, and more than 16 float32 numbers from one to the other",
            owner=owner,
            help='choose "partly-squashed-gaussian" where a bound is missing; leave out constant dimensions',
        )
    return space


class Bounds:
    """Low, width and log-width of a box, in float32; plain floats where all dimensions agree, else (D,) tensors.

    Args:
        low: (D,) lower bounds.
        high: (D,) upper bounds.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self.low_array, self.high_array = (bound.reshape(-1) for bound in rounded_inwards(low, high))
        self.width_array = self.high_array - self.low_array
        width = self.high_array.astype(np.float64) - self.low_array.astype(np.float64)
        self._half_array = (0.5 * width).astype(np.float32)
        self._centre_array = (self.low_array + 0.5 * width).astype(np.float32)
        self.log_width_sum = float(np.log(width).sum())
        self._uniform = bool(
            (self.low_array == self.low_array[0]).all() and (self.high_array == self.high_array[0]).all()
        )
        # A box that does not hold 0 has a coarser grid of floats than its width alone would have.
        farthest = np.maximum(np.abs(self.low_array), np.abs(self.high_array))
        coarseness = np.maximum(farthest / self.width_array, np.float32(1.0))
        arrays = (self.low_array, self.high_array, self.width_array, self._centre_array, self._half_array, coarseness)
        self._floats = tuple(float(array[0]) for array in arrays)
        self._constants = DeviceConstants([torch.from_numpy(array) for array in arrays])

    def _on(self, device: torch.device) -> tuple[Tensor | float, ...]:
        return self._floats if self._uniform else self._constants.on(device)

    def to_box(self, unit: Tensor) -> Tensor:
        """(..., D) in [0, 1] to [low, high]; rounding never leaves the box."""
        low, high, width, _centre, _half, _coarseness = self._on(unit.device)
        return (low + width * unit).clamp(low, high)  # type: ignore[arg-type]

    def scale(self, signed: Tensor) -> Tensor:
        """(..., D) in [−1, 1] to [low, high]; rounding never leaves the box."""
        low, high, _width, centre, half, _coarseness = self._on(signed.device)
        return (centre + half * signed).clamp(low, high)  # type: ignore[arg-type]

    def scale_numpy(self, signed: np.ndarray) -> np.ndarray:
        """Like `scale`, in place."""
        signed *= self._half_array
        signed += self._centre_array
        np.maximum(signed, self.low_array, out=signed)
        np.minimum(signed, self.high_array, out=signed)
        return signed

    def step(self, action: torch.dtype, logits: torch.dtype, device: torch.device) -> Tensor | float:
        """What an action of a type is known to that logits of another made: a part of the width, a number or (D,)."""
        return self._on(device)[5] * max(torch.finfo(action).eps, torch.finfo(logits).eps)

    def to_unit(self, rows: Tensor, margin: Tensor | float) -> Tensor:
        """(..., D) in [low, high] to [margin, 1 − margin]."""
        low, _high, width, _centre, _half, _coarseness = self._on(rows.device)
        return ((rows - low) / width).clamp(margin, 1.0 - margin)  # type: ignore[arg-type]

    def to_box_numpy(self, unit: np.ndarray) -> np.ndarray:
        """Like `to_box`."""
        unit *= self.width_array
        unit += self.low_array
        np.maximum(unit, self.low_array, out=unit)
        np.minimum(unit, self.high_array, out=unit)
        return unit
