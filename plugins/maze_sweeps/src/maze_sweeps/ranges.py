"""The numbers of a range: spread evenly for a grid, drawn for a random search, steps without rounding errors."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from maze_sweeps.space import Range


def steps_of(low: float, high: float, step: float) -> int:
    """How many whole steps lie between two numbers as they are written in decimal."""
    return int((Decimal(repr(high)) - Decimal(repr(low))) // Decimal(repr(step)))


def step_value(leaf: Range, index: int) -> float:
    """`low + index * step`, the number that its decimal digits say."""
    assert leaf.step is not None
    if leaf.is_integer:
        return leaf.low + index * leaf.step
    return float(Decimal(repr(leaf.low)) + index * Decimal(repr(leaf.step)))


def grid_values(leaf: Range) -> list[float]:
    """The numbers that a grid tries: `points` of them, as evenly as steps and integers allow, or every step.

    The ends are among them. There are fewer where several points would fall on one number; none where the leaf has
    neither points nor a step.
    """
    if leaf.points is None:
        return [] if leaf.step is None else [step_value(leaf, i) for i in range(_n_steps(leaf) + 1)]
    shares = np.linspace(0.0, 1.0, leaf.points) if leaf.points > 1 else np.zeros(1)
    values = [_at(leaf, float(share)) for share in shares]
    # Twelve digits, so that the middle of 0.0001 and 0.01 is 0.001.
    return list(dict.fromkeys(value if leaf.is_integer else float(f"{value:.12g}") for value in values))


def draw_value(leaf: Range, random: np.random.Generator) -> float:
    """A number of the range; every one is equally likely, with `log` every ratio."""
    if leaf.step is not None:
        return step_value(leaf, int(random.integers(_n_steps(leaf) + 1)))
    if not leaf.is_integer:
        return _at(leaf, float(random.random()))
    if not leaf.log:
        return int(random.integers(int(leaf.low), int(leaf.high), endpoint=True))
    # Each integer has the share of the logarithmic line that rounds to it.
    low, high = math.log(leaf.low - 0.5), math.log(leaf.high + 0.5)
    drawn = round(math.exp(low + (high - low) * float(random.random())))
    return min(max(drawn, int(leaf.low)), int(leaf.high))


def _at(leaf: Range, share: float) -> float:
    """The number a share of the way from `low` to `high`, exactly these at 0 and 1."""
    if leaf.step is not None:
        return step_value(leaf, round(share * _n_steps(leaf)))
    if share in (0.0, 1.0):
        return leaf.high if share else leaf.low
    span = leaf.high - leaf.low
    value = leaf.low * (leaf.high / leaf.low) ** share if leaf.log else leaf.low + share * span
    value = min(max(value, leaf.low), leaf.high)
    return round(value) if leaf.is_integer else value


def _n_steps(leaf: Range) -> int:
    assert leaf.step is not None
    return steps_of(leaf.low, leaf.high, leaf.step)
