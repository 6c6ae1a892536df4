"""Elements of a chart as SVG text: axes, lines, areas, words. Colours are classes of the page's style.

A chart is drawn 480 wide and scales with the page; `s0` to `s7` are the colours of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from maze_reports.charts.scale import Scale, short

WIDTH = 480.0
N_COLOURS = 8
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 10.0, 38.0


def picture(parts: Iterable[str], *, title: str, height: float, width: float = WIDTH) -> str:
    """A whole `svg` element; the title is what screen readers say."""
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr(title)}>'
        f"{''.join(parts)}</svg>"
    )


def colour(index: int | None) -> str:
    """The classes of a group's colour; further groups repeat the colours with broken lines, None is grey."""
    if index is None:
        return "grey"
    return f"s{index % N_COLOURS}" + (f" dash{min(index // N_COLOURS, 2)}" if index >= N_COLOURS else "")


def text(x: float, y: float, words: str, *, anchor: str = "middle", classes: str = "") -> str:
    """One line; `y` is its baseline."""
    kind = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def row_name(x: float, y: float, name: str, note: str) -> str:
    """A name with a note beside it; `y` is their baseline."""
    words = f'<tspan class="name">{escape(name)}</tspan><tspan dx="8">{escape(note)}</tspan>'
    return f'<text x="{x:.1f}" y="{y:.1f}">{words}</text>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"/>'


def dot(x: float, y: float, classes: str, hint: str, radius: float = 3.5) -> str:
    """A point that says what it is when the pointer rests on it."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{classes}"><title>{escape(hint)}</title></circle>'


def path(points: Sequence[tuple[float, float]], classes: str, hint: str = "") -> str:
    """A line through points."""
    words = f"<title>{escape(hint)}</title>" if hint else ""
    return f'<path d="{_moves(points)}" class="{classes}">{words}</path>'


def area(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]], classes: str) -> str:
    """What lies between two lines."""
    return f'<path d="{_moves([*upper, *reversed(lower)])}Z" class="{classes}"/>'


def steps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a curve that holds each value until the next place; (2E−1,) each of (E,)."""
    return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]


def axes(x: Scale, y: Scale, x_label: str) -> list[str]:
    """Grid lines and numbers of both axes, and what the first is."""
    parts = []
    for value in y.ticks():
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, short(value), anchor="end"))
    for value in x.ticks():
        parts.append(line(x(value), y.start, x(value), y.start + 4, "axis"))
        parts.append(text(x(value), y.start + 17, short(value)))
    parts.append(line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(text((x.start + x.end) / 2, y.start + 33, x_label, classes="label"))
    return parts


def _moves(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
