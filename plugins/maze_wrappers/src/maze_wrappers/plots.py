"""Figures of actions and observations. Nothing here touches pyplot, so no figure outlives its writer."""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST_VIOLINS = 24


def bars(counts: np.ndarray, group: tuple[Any, ...]) -> Any:
    """Shares of the choices of a discrete action, (K,) counts."""
    figure, axes = _figure(group)
    total = max(float(counts.sum()), 1.0)
    axes.bar(np.arange(len(counts)), counts / total)
    axes.set_xlabel("choice")
    axes.set_ylabel("share")
    return figure


def violins(values: np.ndarray, group: tuple[Any, ...]) -> Any:
    """The distribution of each element of (m, …) values."""
    figure, axes = _figure(group)
    columns = np.asarray(values, np.float64).reshape(len(values), -1)[:, :_MOST_VIOLINS]
    axes.violinplot(list(columns.T), showmedians=True)
    axes.set_xticks(np.arange(1, columns.shape[1] + 1), [str(i) for i in range(columns.shape[1])])
    axes.set_xlabel("element")
    return figure


def observations(values: np.ndarray, group: tuple[Any, ...]) -> Any:
    """Images for what looks like images, (m, H, W[, 1 | 3]) or with channels first; violins for everything else."""
    if values.ndim < 3:
        return violins(values, group)
    figure, grid = _figure(group, 2, 4)
    chosen = np.linspace(0, len(values) - 1, 8).astype(int)
    for axes, image in zip(grid.reshape(-1), values[chosen], strict=True):
        while image.ndim > 3:
            image = image[-1]
        if image.ndim == 3 and image.shape[-1] not in (1, 3):
            image = np.moveaxis(image, 0, -1) if image.shape[0] in (1, 3) else image[-1]
        axes.imshow(image, cmap="gray") if image.ndim == 2 or image.shape[-1] == 1 else axes.imshow(_visible(image))
        axes.set_axis_off()
    return figure


def _visible(image: np.ndarray) -> np.ndarray:
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min()), float(image.max())
    return (image - low) / (high - low or 1.0)


def _figure(group: tuple[Any, ...], rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots(rows, columns)
    figure.suptitle(" · ".join(str(part) for part in group if part is not None))
    return figure, axes
