"""Scores of groups: a row each, with a dot a run, a mark for the interquartile mean and its interval."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from maze_reports.charts import drawing
from maze_reports.charts.scale import scale_of, short

_ROW = 44.0


@attrs.frozen(kw_only=True, eq=False)
class DotRow:
    """One group.

    Attributes:
        scores: (n,).
        note: beside the label, e.g. how many runs there are.
        centre: where the mark is; None: nowhere.
        interval: its ends; None: none is drawn.
    """

    label: str
    note: str
    colour: int | None
    scores: np.ndarray
    centre: float | None
    interval: tuple[float, float] | None


def dot_chart(rows: Sequence[DotRow], *, title: str, x_label: str) -> str:
    """Rows below each other over one axis."""
    values = [float(v) for row in rows for v in (*row.scores, *(row.interval or ()))]
    bottom = drawing.TOP + _ROW * len(rows)
    x = scale_of(values, 14.0, drawing.WIDTH - 14.0, margin=0.03)
    parts = [drawing.line(x(v), drawing.TOP, x(v), bottom, "grid") for v in x.ticks()]
    for index, row in enumerate(rows):
        top = drawing.TOP + _ROW * index
        middle = top + 30
        classes = drawing.colour(row.colour)
        parts.append(drawing.row_name(14, top + 15, row.label, row.note))
        if row.interval is not None:
            low, high = map(x, row.interval)
            parts.append(drawing.line(low, middle, high, middle, f"interval {classes}"))
        parts += [
            drawing.dot(x(v), middle, f"point {classes}", f"{row.label}: {short(v)}") for v in map(float, row.scores)
        ]
        if row.centre is not None:
            parts.append(drawing.line(x(row.centre), middle - 9, x(row.centre), middle + 9, f"mark {classes}"))
    parts.append(drawing.line(x.start, bottom, x.end, bottom, "axis"))
    parts += [drawing.text(x(v), bottom + 17, short(v)) for v in x.ticks()]
    parts.append(drawing.text((x.start + x.end) / 2, bottom + 33, x_label, classes="label"))
    return drawing.picture(parts, title=title, height=bottom + drawing.BOTTOM)
