"""The affine map between a bounded box and the interval its distribution lives on."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.errors import SpaceError


def require_float_box(space: spaces.Space, *, bounded: bool, owner: str) -> spaces.Box:
    """The space as a Box of floats that `owner` can serve.

    Raises:
        SpaceError: another space, integers, or (where `bounded`) an infinite or empty interval.
    """
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise SpaceError(
            f"{owner} cannot serve this action space", received=str(space), expected="a Box of floats", owner=owner
        )
    if not bounded:
        return space
    with np.errstate(over="ignore", invalid="ignore"):
        width = space.high.astype(np.float64) - space.low.astype(np.float64)
    if not np.isfinite(width).all() or not (width > 0).all():
        raise SpaceError(
            f"{owner} needs finite bounds with low < high in every dimension",
            received=str(space),
            expected="low and high finite, low < high",
            owner=owner,
            help='choose "diagonal-gaussian" for unbounded boxes; leave a constant dimension out of the space',
        )
    return space


class Bounds:
    """Low, width and log-width of a box; plain floats where all dimensions agree, else (D,) tensors.

    Args:
        low: (D,) lower bounds.
        high: (D,) upper bounds.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self.low_array = low.astype(np.float32).reshape(-1)
        self.high_array = high.astype(np.float32).reshape(-1)
        self.width_array = self.high_array - self.low_array
        width = self.high_array.astype(np.float64) - self.low_array.astype(np.float64)
        self._half_array = (0.5 * width).astype(np.float32)
        self._centre_array = (self.low_array + 0.5 * width).astype(np.float32)
        self.log_width_sum = float(np.log(width).sum())
        self._uniform = bool(
            (self.low_array == self.low_array[0]).all() and (self.high_array == self.high_array[0]).all()
        )
        arrays = (self.low_array, self.high_array, self.width_array, self._centre_array, self._half_array)
        self._floats = tuple(float(array[0]) for array in arrays)
        self._tensors = tuple(torch.from_numpy(array) for array in arrays)

    def _on(self, device: torch.device) -> tuple[Tensor | float, ...]:
        if self._uniform:
            return self._floats
        if self._tensors[0].device != device:
            self._tensors = tuple(tensor.to(device) for tensor in self._tensors)
        return self._tensors

    def to_box(self, unit: Tensor) -> Tensor:
        """(..., D) in [0, 1] to [low, high]; rounding never leaves the box."""
        low, high, width, _centre, _half = self._on(unit.device)
        return (low + width * unit).clamp(low, high)  # type: ignore[arg-type]

    def scale(self, signed: Tensor) -> Tensor:
        """(..., D) in [−1, 1] to [low, high]; rounding never leaves the box."""
        low, high, _width, centre, half = self._on(signed.device)
        return (centre + half * signed).clamp(low, high)  # type: ignore[arg-type]

    def scale_numpy(self, signed: np.ndarray) -> np.ndarray:
        """Like `scale`, in place."""
        signed *= self._half_array
        signed += self._centre_array
        return np.minimum(np.maximum(signed, self.low_array, out=signed), self.high_array, out=signed)

    def to_unit(self, rows: Tensor, margin: float) -> Tensor:
        """(..., D) in [low, high] to [margin, 1 − margin]."""
        low, _high, width, _centre, _half = self._on(rows.device)
        return ((rows - low) / width).clamp(margin, 1.0 - margin)

    def to_box_numpy(self, unit: np.ndarray) -> np.ndarray:
        """Like `to_box`."""
        unit *= self.width_array
        unit += self.low_array
        return np.minimum(np.maximum(unit, self.low_array, out=unit), self.high_array, out=unit)
