"""What `observation-normalization` does to one observation key: a shift and a division, or a function of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maze_runtime.env.box_bounds import is_open_above, is_open_below

if TYPE_CHECKING:
    from torch import Tensor

    from maze_wrappers.running_statistics import RunningStatistics

ClipRange = tuple[float, float] | None

_FAR = 1e4
"""Offset over scale from which float32 loses more than three digits."""


def clipped(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """`np.clip`, in a third of the time for the few values of a step."""
    low, high = bounds
    inside: np.ndarray = np.minimum(np.maximum(values, low), high)
    return inside


class Scaling(Protocol):
    """How the values of one key are normalised, with the statistics of a moment."""

    def normalized(self, values: np.ndarray) -> np.ndarray:
        """(…, *shape) to float32 of the same shape, clipped."""
        ...

    def bounds(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Between what values from `low` to `high` come to lie; before clipping."""
        ...

    def export(self, values: Tensor) -> Tensor:
        """`normalized` in torch operations, with the statistics as constants."""
        ...


class Affine:
    """x' = clip((x − offset) / scale).

    Numbers are float32, unless the offset is so far from 0 that its rounding would show.
    """

    def __init__(self, offset: np.ndarray, scale: np.ndarray, clip: ClipRange) -> None:
        self.clip = clip
        self.offset, self.scale = offset, scale
        self.dtype: type = np.float64
        if not np.any(np.abs(offset) > _FAR * scale):
            self.dtype = np.float32
            self.offset, self.scale = np.asarray(offset, np.float32), np.asarray(scale, np.float32)

    def normalized(self, values: np.ndarray) -> np.ndarray:
        """See `Scaling.normalized`."""
        normalized = (np.asarray(values, self.dtype) - self.offset) / self.scale
        if self.clip is not None:
            normalized = clipped(normalized, self.clip)
        return np.asarray(normalized, np.float32)

    def bounds(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rounded as observations are, so that none lies outside."""
        return self._bound(low, is_open_below(low)), self._bound(high, is_open_above(high))

    def _bound(self, bound: np.ndarray, is_none: np.ndarray) -> np.ndarray:
        """Where there is none, it stays as it is."""
        values = bound.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(is_none, values, (np.asarray(bound, self.dtype) - self.offset) / self.scale)

    def export(self, values: Tensor) -> Tensor:
        """See `Scaling.export`."""
        import torch

        offset, scale = (torch.tensor(np.asarray(part, self.dtype)) for part in (self.offset, self.scale))
        normalized = (values.to(offset.dtype) - offset) / scale
        return (normalized if self.clip is None else normalized.clamp(*self.clip)).float()


class OwnScaling:
    """A strategy's own method `normalize`, clipped."""

    def __init__(self, strategy: Any, clip: ClipRange) -> None:
        self._strategy = strategy
        self._clip = clip

    def normalized(self, values: np.ndarray) -> np.ndarray:
        """See `Scaling.normalized`."""
        normalized = self._strategy.normalize(np.asarray(values, np.float64))
        if self._clip is not None:
            normalized = clipped(normalized, self._clip)
        return np.asarray(normalized, np.float32)

    def bounds(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the strategy says; without its method `bounds` none are known."""
        if not hasattr(self._strategy, "bounds"):
            return np.full(low.shape, -np.inf), np.full(high.shape, np.inf)
        found = self._strategy.bounds(low.astype(np.float64), high.astype(np.float64))
        first, second = (np.broadcast_to(bound, low.shape) for bound in found)
        return first, second

    def export(self, values: Tensor) -> Tensor:
        """See `Scaling.export`; `can_export` says whether it may be called."""
        normalized: Tensor = self._strategy.export(values)
        return (normalized if self._clip is None else normalized.clamp(*self._clip)).float()


def scaling_of(statistics: RunningStatistics, clip: ClipRange) -> Scaling:
    """What statistics come to: a strategy with a method `normalize` is asked itself."""
    if hasattr(statistics, "normalize"):
        return OwnScaling(statistics, clip)
    return Affine(*statistics.offset_and_scale, clip)


def can_export(statistics: RunningStatistics) -> bool:
    """Whether its scaling has a form in torch."""
    return not hasattr(statistics, "normalize") or hasattr(statistics, "export")
