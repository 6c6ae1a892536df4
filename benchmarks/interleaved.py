"""Runs contenders in turn, several rounds, and prints medians and ratios to the first one."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

Contender = Callable[[], float]
"""Does one round of the work; returns environment steps (or updates, samples) a second."""


def take_turns(contenders: Mapping[str, Contender], rounds: int, unit: str = "steps/s") -> dict[str, list[float]]:
    """Interleave `rounds` rounds; returns the figures of each contender, in order."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds):
        for name, contender in contenders.items():
            figures[name].append(contender())
            print(f"round {round_ + 1}  {name:<28} {_text(figures[name][-1]):>12} {unit}", file=sys.stderr, flush=True)
    return figures


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of figures that were taken in turn."""
    return statistics.median(mine / yours for mine, yours in zip(ours, theirs, strict=True))


def compare(contenders: Mapping[str, Contender], rounds: int, unit: str = "steps/s") -> dict[str, float]:
    """Interleave `rounds` rounds; print a table; return the medians. The first contender is the yardstick."""
    figures = take_turns(contenders, rounds, unit)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    base = next(iter(medians))
    print(f"\n| median of {rounds} rounds | {unit} | ÷ {base} |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:,.0f} | {median_ratio(figures[name], figures[base]):.2f} |")
    return medians


def _text(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
