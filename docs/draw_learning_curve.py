"""Draws the evaluation rewards of a run as an SVG: `python docs/draw_learning_curve.py RUN docs/learning-curve.svg`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 36, 44


def read(run: Path, name: str) -> list[tuple[float, float]]:
    """Environment steps and mean reward, from the run's CSV files."""
    with open(run / "statistics" / f"{name}.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tag"] == "BaseEnvEvents/reward/mean"]
    return [(float(row["env_steps"]), float(row["value"])) for row in rows]


def draw(run: Path) -> str:
    """The figure as SVG text."""
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    curves = {"training episodes": ("#9aa5b1", read(run, "train")), "evaluation": ("#d6336c", read(run, "eval"))}
    points = [point for _, curve in curves.values() for point in curve]
    x_max, y_max = max(x for x, _ in points), max(y for _, y in points)
    y_min = min(0.0, *(y for _, y in points))

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + x / x_max * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - y_min) / (y_max - y_min) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = place(share * x_max, y_min + share * (y_max - y_min))
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e9ecef"/>')
        label = f"{y_min + share * (y_max - y_min):.0f}"
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#495057">{label}</text>')
        steps = f"{share * x_max:,.0f}"
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 24}" text-anchor="middle" fill="#495057">{steps}</text>')
    for number, (name, (colour, curve)) in enumerate(curves.items()):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in curve)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x = WIDTH - RIGHT - 130 * (2 - number)
        parts.append(f'<rect x="{x}" y="14" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="23" fill="#212529">{name}</text>')
    title = f"{record['name']}, seed {record['seeds']['run']}: mean episode reward"
    parts.append(f'<text x="{LEFT}" y="23" fill="#212529" font-weight="bold">{title}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle" fill="#495057">environment steps</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(Path(sys.argv[1])), encoding="utf-8")
