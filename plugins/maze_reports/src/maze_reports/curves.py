"""Curves of runs as steps: a value holds until the next one is measured. Nothing is smoothed.

An axis is environment steps, seconds or epochs; values are those measured there, at rising places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MAX_POINTS = 200
"""A grid has no more; of more places an even choice is taken, the first and the last among them."""


def common_grid(axes: Sequence[np.ndarray], max_points: int = MAX_POINTS) -> np.ndarray:
    """(G,) the places at which any run was measured, rising.

    Args:
        axes: (E,) of each run.
    """
    places = np.unique(np.concatenate(axes)) if len(axes) else np.empty(0)
    if len(places) <= max_points:
        return places
    return places[np.round(np.linspace(0, len(places) - 1, max_points)).astype(np.int64)]


def carried_forward(axis: np.ndarray, values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(G,) the last value measured at or before each place; NaN before the first.

    Args:
        axis: (E,) rising.
        values: (E,).
        grid: (G,).
    """
    if not len(values):
        return np.full(len(grid), np.nan)
    index = np.searchsorted(axis, grid, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)], np.nan)


def mean_over(axis: np.ndarray, values: np.ndarray, start: float, end: float) -> float:
    """The area under the steps from `start` to `end`, by its width; at one place the value there.

    The first value holds before its place, too, so that a run that was measured late is not left out.
    """
    if end <= start:
        return float(carried_forward(axis, values, np.array([end]))[0])
    inner = axis[(axis > start) & (axis < end)]
    edges = np.concatenate([[start], inner, [end]])
    heights = carried_forward(axis, values, edges[:-1])
    heights = np.where(np.isnan(heights), values[0], heights)
    return float(np.sum(heights * np.diff(edges)) / (end - start))


def first_reaching(axis: np.ndarray, values: np.ndarray, threshold: float, minimize: bool = False) -> float:
    """The first place with a value at least (at most) as good as a threshold; infinite where there is none."""
    reached = values <= threshold if minimize else values >= threshold
    return float(axis[np.argmax(reached)]) if reached.any() else float("inf")
