"""The `drawing` logger: a picture of every network, as SVG files in the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from maze_drawing.network_drawing import draw
from maze_drawing.options import DrawingOptions
from maze_kernel.contracts.logger import EpochRecord, LoggerContext
from maze_kernel.contracts.networks import NetworkGraph


class DrawingLogger:
    """One file a network, drawn before training."""

    def __init__(self, context: LoggerContext, options: DrawingOptions) -> None:
        self._folder = Path(context.run_dir) / options.folder

    def networks(self, graphs: Mapping[str, NetworkGraph]) -> None:
        """Draw each into `<name>.svg`."""
        self._folder.mkdir(exist_ok=True)
        for name, graph in graphs.items():
            (self._folder / f"{name}.svg").write_text(draw(graph, name).to_svg(), encoding="utf-8")

    def write(self, record: EpochRecord) -> None:
        """Statistics are not drawn."""
