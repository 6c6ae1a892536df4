"""Draws the evaluation rewards of several runs in one SVG.

    python docs/draw_fine_tuning.py FILE.svg "from the clone=runs/fine-tuned" "from scratch=runs/scratch"

A name followed by several runs with commas between them shows their mean and, shaded, their range.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 44
COLOURS = ("#d6336c", "#1c7ed6", "#2b8a3e", "#e8590c")

Curve = list[tuple[float, float, float, float]]
"""Environment steps, mean, least and greatest reward."""


def read(runs: Sequence[Path]) -> Curve:
    """The evaluations that all runs have."""
    by_run = []
    for run in runs:
        with open(run / "statistics" / "eval.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["tag"] == "BaseEnvEvents/reward/mean"]
        by_run.append({float(row["env_steps"]): float(row["value"]) for row in rows})
    shared = sorted(set.intersection(*(set(values) for values in by_run)))
    columns = [(steps, [values[steps] for values in by_run]) for steps in shared]
    return [(steps, sum(rewards) / len(rewards), min(rewards), max(rewards)) for steps, rewards in columns]


class Axes:
    """From steps and rewards to places in the picture."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        points = [point for curve in curves for point in curve]
        self.x_max = max(point[0] for point in points)
        self.y_min = min(0.0, *(point[2] for point in points))
        self.y_max = max(point[3] for point in points)

    def place(self, x: float, y: float) -> str:
        across = LEFT + x / self.x_max * (WIDTH - LEFT - RIGHT)
        up = (y - self.y_min) / (self.y_max - self.y_min) * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f},{HEIGHT - BOTTOM - up:.1f}"

    def grid(self) -> list[str]:
        parts = []
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            steps, reward = share * self.x_max, self.y_min + share * (self.y_max - self.y_min)
            x, y = self.place(steps, reward).split(",")
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#e9ecef"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{float(y) + 4}" text-anchor="end">{reward:.0f}</text>')
            anchor = "end" if share == 1.0 else "middle"
            parts.append(f'<text x="{x}" y="{HEIGHT - 24}" text-anchor="{anchor}">{steps:,.0f}</text>')
        return parts


def draw(named: Sequence[tuple[str, Curve]]) -> str:
    """The figure as SVG text."""
    axes = Axes([curve for _, curve in named])
    style = 'font-family="sans-serif" font-size="12" fill="#495057"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>']
    parts += [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *axes.grid()]
    for number, (name, curve) in enumerate(named):
        colour = COLOURS[number % len(COLOURS)]
        outline = [axes.place(x, high) for x, _, _, high in curve] + [
            axes.place(x, low) for x, _, low, _ in curve[::-1]
        ]
        parts.append(f'<polygon points="{" ".join(outline)}" fill="{colour}" fill-opacity="0.15"/>')
        line = " ".join(axes.place(x, mean) for x, mean, _, _ in curve)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x = LEFT + 190 * number
        parts.append(f'<rect x="{x}" y="14" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="23" fill="#212529">{name}</text>')
    middle, foot = WIDTH / 2, HEIGHT - 6
    parts.append(
        f'<text x="{middle}" y="{foot}" text-anchor="middle">environment steps of PPO; mean evaluation reward</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(target: str, *curves: str) -> None:
    """Each of `curves` is NAME=RUN[,RUN…]."""
    named = [(curve.partition("=")[0], [Path(run) for run in curve.partition("=")[2].split(",")]) for curve in curves]
    Path(target).write_text(draw([(name, read(runs)) for name, runs in named]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
