"""Draws mean episode rewards against environment steps, or epochs, as an SVG.

    python docs/draw_learning_curve.py FILE.svg TITLE NAME=RUN[,RUN…] [NAME=RUN[,RUN…] …]

A run stands for its evaluations; a CSV file in its place is read as it is (`runs/first/statistics/train.csv` for the
training episodes). Several runs of one name show their mean and, shaded, their range; where their evaluations fall on
different steps, as with trainers that count whole episodes, straight lines are drawn between those of each run. Runs
that took no environment steps, as those of behavioural cloning, are drawn against epochs.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 56, 44
COLOURS = ("#d6336c", "#1c7ed6", "#868e96", "#2b8a3e", "#e8590c")
REWARD = "BaseEnvEvents/reward/mean"


class Point(NamedTuple):
    """Mean, least and greatest reward of the runs after so many environment steps."""

    steps: float
    mean: float
    low: float
    high: float


Curve = list[Point]


def read(runs: Sequence[Path], column: str = "env_steps") -> Curve:
    """The points that all runs have, by environment steps; between their evaluations where they share too few."""
    by_run = [_rewards(run, column) for run in runs]
    shared = sorted(set.intersection(*(set(rewards) for rewards in by_run)))
    if 2 * len(shared) < min(map(len, by_run)):
        shared = _common_range(by_run)
    if not shared:
        raise SystemExit(f"no evaluations over the same steps in {', '.join(map(str, runs))}")
    columns = [(steps, [_between(rewards, steps) for rewards in by_run]) for steps in shared]
    return [Point(steps, sum(rewards) / len(rewards), min(rewards), max(rewards)) for steps, rewards in columns]


def _common_range(by_run: Sequence[dict[float, float]]) -> list[float]:
    """Steps of the run that begins last that lie within the evaluations of every run."""
    begins_last, last = max(by_run, key=min), min(map(max, by_run))
    return sorted(steps for steps in begins_last if steps <= last)


def _between(rewards: dict[float, float], steps: float) -> float:
    """The reward after so many steps, on the straight line between the evaluations before and after."""
    before, after = max(x for x in rewards if x <= steps), min(x for x in rewards if x >= steps)
    share = (steps - before) / (after - before) if after > before else 0.0
    return rewards[before] + share * (rewards[after] - rewards[before])


def column_of(runs: Sequence[Path]) -> str:
    """What the runs are drawn against: "env_steps", or "epoch" where none of them took any."""
    return "env_steps" if any(max(_rewards(run, "env_steps"), default=0.0) for run in runs) else "epoch"


def _rewards(run: Path, column: str) -> dict[float, float]:
    path = run if run.suffix == ".csv" else run / "statistics" / "eval.csv"
    with open(path, encoding="utf-8", newline="") as file:
        return {float(row[column]): float(row["value"]) for row in csv.DictReader(file) if row["tag"] == REWARD}


class Axes:
    """From steps and rewards to places in the picture."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        points = [point for curve in curves for point in curve]
        self.x_max = max(point.steps for point in points)
        self.y_min = min(0.0, *(point.low for point in points))
        self.y_max = max(0.0, *(point.high for point in points))

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + x / self.x_max * (WIDTH - LEFT - RIGHT)
        up = (y - self.y_min) / (self.y_max - self.y_min) * (HEIGHT - TOP - BOTTOM)
        return across, HEIGHT - BOTTOM - up

    def grid(self) -> list[str]:
        parts = []
        for reward in round_numbers(self.y_min, self.y_max):
            _, y = self.place(0.0, reward)
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e9ecef"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{reward:,.0f}</text>')
        for steps in round_numbers(0.0, self.x_max):
            x, _ = self.place(steps, 0.0)
            anchor = "end" if steps == self.x_max else "middle"
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 24}" text-anchor="{anchor}">{steps:,.0f}</text>')
        return parts


def round_numbers(low: float, high: float) -> list[float]:
    """Four to nine multiples of 1, 2 or 5 times a power of ten between two numbers.

    >>> round_numbers(-130.0, 250.0)
    [-100.0, -50.0, 0.0, 50.0, 100.0, 150.0, 200.0, 250.0]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = max(factor * power for factor in (1, 2, 5) if factor * power <= (high - low) / 4)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _drawn(axes: Axes, curve: Curve, colour: str) -> list[str]:
    """The range of the runs and the line of their mean."""

    def path(places: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in (axes.place(*place) for place in places))

    outline = path([(p.steps, p.high) for p in curve] + [(p.steps, p.low) for p in reversed(curve)])
    line = path([(p.steps, p.mean) for p in curve])
    return [
        f'<polygon points="{outline}" fill="{colour}" fill-opacity="0.15"/>',
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>',
    ]


def draw(title: str, curves: dict[str, Curve], across: str = "environment steps") -> str:
    """The figure as SVG text; `across` is what is written below."""
    axes = Axes(list(curves.values()))
    style = 'font-family="sans-serif" font-size="12" fill="#495057"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>']
    parts += [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *axes.grid()]
    x = LEFT
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts += _drawn(axes, curve, colour)
        parts.append(f'<rect x="{x}" y="34" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="43">{name}</text>')
        x += 40 + 7 * len(name)
    parts.append(f'<text x="{LEFT}" y="20" fill="#212529" font-weight="bold">{title}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{across}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(target: str, title: str, *curves: str) -> None:
    """Each of `curves` is NAME=RUN[,RUN…]."""
    named = (curve.partition("=") for curve in curves)
    runs = {name: [Path(run) for run in paths.split(",")] for name, _, paths in named}
    column = column_of([run for own in runs.values() for run in own])
    drawn = {name: read(own, column) for name, own in runs.items()}
    across = {"env_steps": "environment steps", "epoch": "epochs"}[column]
    Path(target).write_text(draw(title, drawn, across), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
