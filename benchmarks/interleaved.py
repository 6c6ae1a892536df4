"""Runs contenders in turn, several rounds, and prints medians and ratios to the first one."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping

Contender = Callable[[], float]
"""Does one round of the work; returns environment steps (or updates, samples) a second."""


def compare(contenders: Mapping[str, Contender], rounds: int, unit: str = "steps/s") -> dict[str, float]:
    """Interleave `rounds` rounds; print a table; return the medians. The first contender is the yardstick."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds):
        for name, contender in contenders.items():
            figures[name].append(contender())
            print(f"round {round_ + 1}  {name:<28} {figures[name][-1]:>12,.0f} {unit}", file=sys.stderr, flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    base = next(iter(medians))
    ratios = {
        name: statistics.median(ours / theirs for ours, theirs in zip(figures[name], figures[base], strict=True))
        for name in figures
    }
    print(f"\n| median of {rounds} rounds | {unit} | ÷ {base} |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:,.0f} | {ratios[name]:.2f} |")
    return medians
