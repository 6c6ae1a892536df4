"""Draws the distributions of this repository and what each is built on, from their `pyproject.toml` files.

    python docs/draw_parts.py FILE.svg

Each is a box; its column, the floor, is the longest way to maze-kernel. Arrows lead to what a distribution declares;
those that follow from others are left out. `make reference` writes `docs/figures/parts.svg` with it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from maze_drawing.network_layout import place

ROOT = Path(__file__).resolve().parent.parent
GROUND, BUNDLE = "maze-kernel", "maze-suite"
FONT_SIZE, LETTER, BOX_HEIGHT = 13, 0.61, 27.0
COLUMN_GAP, MARGIN, HEADER = 74.0, 14.0, 34.0
SCALE = 0.34
"""Pixels a unit of the layout, which is made for larger boxes."""
LINE, DARK = "#868e96", "#212529"
FILLS = {"ground": "#ffd8a8", "room": "#a5d8ff", "plugin": "#d0ebff", "library": "#d3f9d8", "bundle": "#eebefa"}


class Part(NamedTuple):
    """One distribution.

    Attributes:
        name: of the distribution.
        needs: the distributions of this repository that it declares.
        kind: a key of `FILLS`.
    """

    name: str
    needs: frozenset[str]
    kind: str


Parts = Mapping[str, Part]
Point = tuple[float, float]


def read_parts(files: Iterable[Path]) -> dict[str, Part]:
    """The distributions that these `pyproject.toml` files describe, by name."""
    projects = {file: tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files}
    own = {project["name"] for project in projects.values()}
    parts = {}
    for file, project in projects.items():
        needs = {re.match(r"[\w-]+", text)[0] for text in project.get("dependencies", ())}
        parts[project["name"]] = Part(project["name"], frozenset(needs & own), _kind(file, project))
    return parts


def _kind(file: Path, project: Mapping[str, object]) -> str:
    if project["name"] in (GROUND, BUNDLE):
        return "ground" if project["name"] == GROUND else "bundle"
    if "entry-points" not in project:
        return "library"
    return "plugin" if file.parent.parent.name == "plugins" else "room"


def arrows(parts: Parts) -> list[tuple[str, str]]:
    """Pairs (part, what it is built on), without those that follow from others."""

    @cache
    def below(name: str) -> frozenset[str]:
        return parts[name].needs.union(*(below(other) for other in parts[name].needs))

    found = []
    for name, part in sorted(parts.items()):
        indirect = frozenset().union(*(below(other) for other in part.needs))
        found += [(name, other) for other in sorted(part.needs - indirect)]
    return found


def floors(parts: Parts) -> dict[str, int]:
    """The longest way from each part to the ground."""

    @cache
    def floor(name: str) -> int:
        return max((1 + floor(other) for other in parts[name].needs), default=0)

    return {name: floor(name) for name in parts}


def parts_svg(files: Iterable[Path]) -> str:
    """The drawing as a whole SVG file; readable on a white and on a black page."""
    parts = read_parts(files)
    lines, floor = arrows(parts), floors(parts)
    layout = place(dict.fromkeys(sorted(parts, key=floor.__getitem__), BOX_HEIGHT / SCALE), _downward(lines))
    columns = _columns(parts, floor)
    first = HEADER + MARGIN - SCALE * min(*layout.x.values(), *(y for way in layout.bends.values() for y in way))
    centre = {name: first + layout.x[name] * SCALE for name in parts}
    bends = {line: [first + y * SCALE for y in way] for line, way in layout.bends.items()}
    height = max(centre.values()) + BOX_HEIGHT / 2 + MARGIN
    width = columns[-1][1] + MARGIN
    body = [
        *(_heading(index, *column) for index, column in enumerate(columns)),
        *(_arrow(_way(line, centre, bends, columns, floor)) for line in lines),
        *(_box(part, centre[name], *columns[floor[name]]) for name, part in parts.items()),
    ]
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>', _TIP, *body, "</svg>", ""])


_FONT = f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT_SIZE}"'
_TIP = (
    '<title>The distributions of Maze and what each is built on</title><defs><marker id="tip" viewBox="0 0 8 8" '
    f'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/>'
    "</marker></defs>"
)


def _downward(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(other, name) for name, other in lines]


def _columns(parts: Parts, floor: Mapping[str, int]) -> list[tuple[float, float]]:
    """Left and right edge of each floor's boxes."""
    columns, left = [], MARGIN
    for index in range(max(floor.values()) + 1):
        letters = max(len(name) for name in parts if floor[name] == index)
        right = left + letters * FONT_SIZE * LETTER + 18.0
        columns.append((left, right))
        left = right + COLUMN_GAP
    return columns


def _heading(index: int, left: float, right: float) -> str:
    return _text((left + right) / 2, HEADER - 10, f"floor {index}", LINE, bold=True)


def _box(part: Part, centre: float, left: float, right: float) -> str:
    shape = (
        f'x="{left:.1f}" y="{centre - BOX_HEIGHT / 2:.1f}" width="{right - left:.1f}" height="{BOX_HEIGHT:.1f}" rx="5"'
    )
    box = f'<rect {shape} fill="{FILLS[part.kind]}" stroke="{LINE}"/>'
    return box + _text((left + right) / 2, centre + 4.5, part.name, DARK)


def _text(x: float, y: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}"{weight}>{text}</text>'


def _way(
    line: tuple[str, str],
    centre: Mapping[str, float],
    bends: Mapping[tuple[str, str], list[float]],
    columns: list[tuple[float, float]],
    floor: Mapping[str, int],
) -> list[Point]:
    """From the left edge of a box to the right edge of what it is built on, level where it passes a floor."""
    name, other = line
    points = [(columns[floor[name]][0], centre[name])]
    passed = range(floor[other] + 1, floor[name])
    for index, y in reversed(list(zip(passed, bends[(other, name)], strict=True))):
        points += [(columns[index][1], y), (columns[index][0], y)]
    return [*points, (columns[floor[other]][1], centre[other])]


def _arrow(points: list[Point]) -> str:
    path = "M{:.1f} {:.1f}".format(*points[0])
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (x0 + x1) / 2
        path += f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.1" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    pages = sorted([*ROOT.glob("maze_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")])
    Path(sys.argv[1]).write_text(parts_svg(pages), encoding="utf-8")
