"""Distributions: how often each choice was taken, or how numbers lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_reports.charts import drawing
from maze_reports.charts.scale import Scale, scale_of, short

HEIGHT = 190.0
N_BINS = 30
_FAR = 1e300
"""Numbers further out stand in the last bin: the distance of two must be a number, too."""


def choice_bars(counts: np.ndarray, *, title: str, x_label: str) -> str:
    """A bar a choice.

    Args:
        counts: (A,) how often each was taken.
        title: for who cannot see the picture.
        x_label: below the axis.
    """
    n = len(counts)
    x = Scale(low=-0.5, high=n - 0.5, start=drawing.LEFT, end=drawing.WIDTH - drawing.RIGHT)
    every = max(1, round(n / 12))
    names = [(index, str(index)) for index in range(0, n, every)]
    edges = [(index - 0.4, index + 0.4) for index in range(n)]
    return _bars(counts, edges, x, names, title, x_label)


def number_bars(values: np.ndarray, *, title: str, x_label: str) -> str:
    """A histogram of numbers in bins of equal width.

    Args:
        values: (n,), of which only finite ones count.
        title: for who cannot see the picture.
        x_label: below the axis.
    """
    counts, edges = np.histogram(np.clip(values[np.isfinite(values)], -_FAR, _FAR), N_BINS)
    x = scale_of(edges.tolist(), drawing.LEFT, drawing.WIDTH - drawing.RIGHT)
    names = [(tick, short(tick)) for tick in x.ticks()]
    return _bars(counts, list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)), x, names, title, x_label)


def _bars(
    counts: np.ndarray,
    edges: Sequence[tuple[float, float]],
    x: Scale,
    names: Sequence[tuple[float, str]],
    title: str,
    x_label: str,
) -> str:
    shares = counts / max(counts.sum(), 1)
    y = scale_of([0.0, float(shares.max())], HEIGHT - drawing.BOTTOM, drawing.TOP)
    parts = []
    for tick in y.ticks(3):
        parts.append(drawing.line(x.start, y(tick), x.end, y(tick), "grid"))
        parts.append(drawing.text(x.start - 6, y(tick) + 4, f"{tick:.3g}", anchor="end"))
    for (low, high), share, count in zip(edges, shares, counts, strict=True):
        top = y(float(share))
        parts.append(
            f'<rect x="{x(low):.1f}" y="{top:.1f}" width="{x(high) - x(low):.1f}" height="{y.start - top:.1f}" '
            f'class="bar s0"><title>{int(count)}, {share:.1%}</title></rect>'
        )
    parts.append(drawing.line(x.start, y.start, x.end, y.start, "axis"))
    parts += [drawing.text(x(place), y.start + 17, name) for place, name in names]
    parts.append(drawing.text((x.start + x.end) / 2, y.start + 33, x_label, classes="label"))
    return drawing.picture(parts, title=title, height=HEIGHT)
