"""From values to places in a picture: ranges, round ticks, short numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs
import numpy as np


@attrs.frozen(kw_only=True)
class Scale:
    """Maps values from `low` to `high` onto pixels from `start` to `end`; on a logarithmic scale if `is_log`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.is_log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the range."""
        return _decades(self.low, self.high, count) if self.is_log else _round_steps(self.low, self.high, count)


def scale_of(values: Iterable[float], start: float, end: float, *, margin: float = 0.0, is_log: bool = False) -> Scale:
    """A scale that all finite values fit on; of one value, or none, a range around it.

    Args:
        values: to be shown.
        start: pixel of the lowest one.
        end: pixel of the highest one.
        margin: share of the range that is left free at both ends.
        is_log: positive values on a logarithmic scale.
    """
    finite = np.array([value for value in values if math.isfinite(value)], np.float64)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if is_log:
        factor = 2.0 if low == high else (high / low) ** margin
        return Scale(low=low / factor, high=high * factor, start=start, end=end, is_log=True)
    room = (high - low) * margin or (0.0 if high > low else abs(high) * 0.1 or 1.0)
    return Scale(low=low - room, high=high + room, start=start, end=end)


def short(value: float) -> str:
    """A number of an axis: 0, 0.25, 12k, 1.5M, 1e-5."""
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e12):
        digits, _, exponent = f"{value:.1e}".partition("e")
        return f"{digits.removesuffix('.0')}e{int(exponent)}"
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}"


def _round_steps(low: float, high: float, count: int) -> list[float]:
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _decades(low: float, high: float, count: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    exponents = range(first, last + 1)
    kept = exponents[:: max(1, math.ceil(len(exponents) / count))]
    return [10.0**exponent for exponent in kept] if len(kept) > 1 else [low, high]
