"""Draws the piece that was chosen with its cuts, beside the inventory. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maze_cutting2d.states import CutAction, CuttingAction, CuttingState, turned
from maze_kernel.contracts.events import EventRecord
from maze_kernel.errors import RequestError
from maze_runtime.env.renderer import IntRange, Renderer


class CuttingRenderer(Renderer):
    """Left the piece to cut, its cuts dashed, the order shaded; right all pieces as outlines and the order."""

    def render(
        self, maze_state: CuttingState, maze_action: Any | None, events: Sequence[EventRecord], **arguments: Any
    ) -> np.ndarray:
        """(400, 800, 3) at the default dpi."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise RequestError(
                "drawing the cutting environment needs matplotlib, which is not installed",
                help="pip install 'maze-cutting2d[render]'",
            ) from error
        dpi = int(arguments.get("dpi", self.arguments()["dpi"].default))
        figure = Figure(figsize=(8, 4), dpi=dpi)
        canvas: Any = FigureCanvasAgg(figure)
        # Fixed margins: a computed layout would draw every text three times.
        left, right = figure.subplots(1, 2, gridspec_kw={"left": 0.05, "right": 0.98, "bottom": 0.08, "top": 0.86})
        _draw_piece(left, maze_state, maze_action)
        _draw_inventory(right, maze_state, _piece_id(maze_state, maze_action))
        figure.suptitle(", ".join(record.event.__name__.replace("_", " ") for record in events), fontsize=8)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()

    def arguments(self) -> Mapping[str, IntRange]:
        """The resolution."""
        return {"dpi": IntRange(low=50, high=300, default=100)}


def _piece_id(state: CuttingState, action: Any | None) -> int | None:
    piece_id = getattr(action, "piece_id", state.selected_piece_id)
    return piece_id if piece_id is not None and piece_id < len(state.inventory) else None


def _draw_piece(axes: Any, state: CuttingState, action: Any | None) -> None:
    from matplotlib.patches import Rectangle

    _frame(axes, state, "piece to cut")
    piece_id = _piece_id(state, action)
    if piece_id is None:
        return
    x, y = state.inventory[piece_id]
    axes.add_patch(Rectangle((0, 0), x, y, facecolor="lightsteelblue", edgecolor="black"))
    if not isinstance(action, (CuttingAction, CutAction)):
        return
    order = turned(state.current_demand, action.rotate)
    axes.add_patch(Rectangle((0, 0), *order, facecolor="none", edgecolor="black", hatch="//", linewidth=0.5))
    first_is_y = action.reverse_cutting_order
    axes.plot([order[0], order[0]], [0, order[1] if first_is_y else y], "r--")
    axes.plot([0, x if first_is_y else order[0]], [order[1], order[1]], "r--")


def _draw_inventory(axes: Any, state: CuttingState, piece_id: int | None) -> None:
    from matplotlib.patches import Rectangle

    _frame(axes, state, f"inventory: {len(state.inventory)} of {state.max_pieces_in_inventory}")
    for index, (x, y) in enumerate(state.inventory):
        color, width = ("red", 2.0) if index == piece_id else ("steelblue", 1.0)
        axes.add_patch(Rectangle((0, 0), x, y, facecolor="none", edgecolor=color, linewidth=width, alpha=0.75))
    axes.add_patch(Rectangle((0, 0), *state.current_demand, facecolor="none", edgecolor="black", hatch="//"))


def _frame(axes: Any, state: CuttingState, title: str) -> None:
    side = max(state.raw_piece_size)
    ticks = [0, side / 2, side]
    axes.set(xlim=(0, side * 1.05), ylim=(0, side * 1.05), aspect="equal", title=title, xticks=ticks, yticks=ticks)
