"""Mean, variance and range of arrays that arrive in batches, in float64.

Batches are merged by the pairwise update of Chan, Golub and LeVeque (1979), "Updating formulae and a pairwise algorithm
for computing sample variances": exact up to rounding, whatever the batch sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

_CONSTANT = 1e-10
"""A standard deviation below this share of the mean is rounding: the feature is constant."""


class RunningStatistics(Protocol):
    """What `observation-normalization` needs of a strategy: x' = (x − offset) / scale, from samples seen so far.

    Built with `axis`, the axes of the batches to reduce, of which 0 counts the samples.

    A strategy that is no division has a method `normalize(values)` in the place of `offset_and_scale`: float64
    (…, *shape) in, the same shape out. Two more are its choice: `bounds(low, high)` says between what it puts values
    from `low` to `high`, and `export(values)` is `normalize` in torch operations, without which no run can be exported.
    """

    axis: tuple[int, ...]
    count: float
    """Samples seen; 0: nothing is known."""

    def update(self, batch: np.ndarray) -> None:
        """Add a batch, `(n, *shape)`."""
        ...

    def merge(self, other: Self) -> None:
        """Add all samples that another one has seen."""
        ...

    @property
    def offset_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """What to subtract, and what to divide by; broadcast to the shape of an observation."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit for bit: arrays and JSON values, `count` among them."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        ...


class RunningMoments:
    """Count, mean and sum of squared deviations over `axis` of stacked samples.

    Args:
        axis: axes of the batches to reduce; must hold 0, the axis of the samples. Other axes of it keep length 1.
    """

    def __init__(self, axis: tuple[int, ...] = (0,)) -> None:
        self.axis = axis
        self.count = 0.0
        self.mean: np.ndarray = np.zeros(())
        self.m2: np.ndarray = np.zeros(())

    def update(self, batch: np.ndarray) -> None:
        """Add a batch, `(n, *shape)`."""
        if not batch.shape[0]:
            return
        # Plain reductions: this runs at every step, and np.mean alone costs more than all of them.
        values = batch.astype(np.float64)
        if self.axis == (0,):
            n = float(len(values))
            mean = np.add.reduce(values) / n
            deviation = values - mean
            self._add(n, mean, np.add.reduce(deviation * deviation))
            return
        total = np.add.reduce(values, axis=self.axis, keepdims=True)
        n = values.size / total.size
        mean = total / n
        deviation = values - mean
        m2 = np.add.reduce(deviation * deviation, axis=self.axis, keepdims=True)
        self._add(n, mean[0], m2[0])

    def merge(self, other: RunningMoments) -> None:
        """Add all samples that another one has seen."""
        if other.count:
            self._add(other.count, other.mean, other.m2)

    def _add(self, n: float, mean: np.ndarray, m2: np.ndarray) -> None:
        if not self.count:
            self.count, self.mean, self.m2 = n, mean.copy(), m2.copy()
            return
        total = self.count + n
        delta = mean - self.mean
        # M2 = M2_a + M2_b + delta² n_a n_b / (n_a + n_b)
        self.m2 = self.m2 + m2 + delta * delta * (self.count * n / total)
        # mean = mean_a + delta n_b / (n_a + n_b)
        self.mean = self.mean + delta * (n / total)
        self.count = total

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation; 1 where it is 0 or nothing was seen."""
        if not self.count:
            return np.ones_like(self.mean)
        std: Any = np.sqrt(self.m2 / self.count)
        if isinstance(std, float):  # of single numbers, without the price of an array
            return std if std > _CONSTANT * abs(self.mean) else np.float64(1.0)  # type: ignore[return-value]
        return np.where(std > _CONSTANT * np.abs(self.mean), std, 1.0)

    @property
    def offset_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """What to subtract, and what to divide by."""
        return self.mean, self.std

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit for bit."""
        return {"count": self.count, "mean": self.mean, "m2": self.m2}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.count = float(state["count"])
        self.mean, self.m2 = (np.array(state[name], np.float64) for name in ("mean", "m2"))


class RunningRange:
    """Lowest and highest value over `axis` of stacked samples; see `RunningMoments`."""

    def __init__(self, axis: tuple[int, ...] = (0,)) -> None:
        self.axis = axis
        self.count = 0.0
        self.min: np.ndarray = np.zeros(())
        self.max: np.ndarray = np.ones(())

    def update(self, batch: np.ndarray) -> None:
        """Add a batch, `(n, *shape)`."""
        if batch.shape[0]:
            values = batch.astype(np.float64)
            low, high = values.min(axis=self.axis, keepdims=True)[0], values.max(axis=self.axis, keepdims=True)[0]
            self._add(values.size / low.size, low, high)

    def merge(self, other: RunningRange) -> None:
        """Add all samples that another one has seen."""
        if other.count:
            self._add(other.count, other.min, other.max)

    def _add(self, n: float, low: np.ndarray, high: np.ndarray) -> None:
        self.min = np.minimum(self.min, low) if self.count else low.copy()
        self.max = np.maximum(self.max, high) if self.count else high.copy()
        self.count += n

    @property
    def offset_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """What to subtract, and what to divide by: 1 where the range is empty."""
        width = self.max - self.min
        return self.min, np.where(width > 0, width, 1.0)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit for bit."""
        return {"count": self.count, "min": self.min, "max": self.max}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.count = float(state["count"])
        self.min, self.max = (np.array(state[name], np.float64) for name in ("min", "max"))
