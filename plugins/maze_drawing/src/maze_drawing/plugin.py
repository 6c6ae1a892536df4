"""What this plugin provides: the logger `drawing` and the command `networks`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent, LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The logger `drawing`."""
    yield LoggerComponent(
        name="drawing",
        target="maze_drawing.logger:DrawingLogger",
        options="maze_drawing.options:DrawingOptions",
        summary="A picture of every network that is trained, as SVG.",
        default=True,
    )


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """The command `networks`."""
    yield CommandComponent(
        name="networks",
        target="maze_drawing.commands:networks",
        summary="Show the networks that an experiment would train, as Mermaid text.",
    )
