"""Curves over an axis, with bands or points beside them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from maze_reports.charts import drawing
from maze_reports.charts.scale import scale_of, short

HEIGHT = 270.0


@attrs.frozen(kw_only=True, eq=False)
class Line:
    """One curve.

    Attributes:
        colour: index of its colour; None: grey, in the background.
        x, y: (G,) rising places and values.
        band: lower and upper ends (G,); None: none.
        points: pairs (x, y) of arrays, one a run, drawn as points.
        is_stepped: a value holds until the next place.
    """

    label: str
    colour: int | None
    x: np.ndarray
    y: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None = None
    points: Sequence[tuple[np.ndarray, np.ndarray]] = ()
    is_stepped: bool = True


def line_chart(lines: Sequence[Line], *, title: str, x_label: str) -> str:
    """Curves in one frame.

    Args:
        lines: those behind first.
        title: for who cannot see the picture.
        x_label: below the axis.
    """
    x = scale_of([0.0, *_all_x(lines)], drawing.LEFT, drawing.WIDTH - drawing.RIGHT)
    y = scale_of(_all_y(lines), HEIGHT - drawing.BOTTOM, drawing.TOP, margin=0.04)
    parts = drawing.axes(x, y, x_label)
    for curve in lines:
        classes = drawing.colour(curve.colour)
        if curve.band is not None and len(curve.x):
            low, high = (
                [(x(a), y(b)) for a, b in zip(*drawing.steps(curve.x, end), strict=True)] for end in curve.band
            )
            parts.append(drawing.area(high, low, f"band {classes}"))
        for own_x, own_y in curve.points:
            for a, b in zip(own_x, own_y, strict=True):
                parts.append(
                    drawing.dot(x(a), y(b), f"point {classes}", f"{curve.label}: {short(b)} at {short(a)}", 2.2)
                )
        if len(curve.x):
            corners = drawing.steps(curve.x, curve.y) if curve.is_stepped else (curve.x, curve.y)
            places = [(x(a), y(b)) for a, b in zip(*corners, strict=True)]
            hint = f"{curve.label}: {short(float(curve.y[-1]))} at {short(float(curve.x[-1]))}"
            parts.append(drawing.path(places, f"line {classes}", hint))
    return drawing.picture(parts, title=title, height=HEIGHT)


def _all_x(lines: Sequence[Line]) -> list[float]:
    return [float(v) for curve in lines for part in (curve.x, *(own for own, _ in curve.points)) for v in part]


def _all_y(lines: Sequence[Line]) -> list[float]:
    arrays = [part for curve in lines for part in (curve.y, *(curve.band or ()), *(own for _, own in curve.points))]
    return [float(v) for part in arrays for v in part]
