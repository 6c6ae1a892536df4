"""The pictures of a run: its networks, in `figures/` and for the loggers that can show them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maze_kernel.models.network_graph import NetworkGraph
from maze_kernel.run.fan_out import FanOut
from maze_kernel.run.network_drawing import Drawing, draw, drawing_name


def draw_networks(model: Any, run_dir: Path, loggers: FanOut) -> None:
    """Write `figures/<network>.svg` for every network of a model, and hand the pictures to the loggers.

    A model that does not say what it is made of is not drawn. A picture that fails is a message, no end of the run.

    Args:
        model: with the method of `DrawsNetworks`, or without.
    """
    graphs_of = getattr(model, "network_graphs", None)
    if graphs_of is None:
        return
    try:
        drawings = drawings_of(graphs_of())
        folder = run_dir / "figures"
        folder.mkdir(exist_ok=True)
        for drawing in drawings:
            (folder / f"{drawing.name}.svg").write_text(drawing.to_svg(), encoding="utf-8")
    except Exception as error:
        loggers.message(f"the networks could not be drawn: {type(error).__name__}: {error}")
        return
    for drawing in drawings:
        loggers.draw(drawing)


def drawings_of(graphs: Sequence[NetworkGraph]) -> list[Drawing]:
    """One picture a network, each with a name of its own."""
    only_key = len({graph.policy_key for graph in graphs}) == 1
    return [draw(graph, drawing_name(graph, only_key=only_key)) for graph in graphs]
