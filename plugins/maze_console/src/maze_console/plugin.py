"""What this plugin provides: the `console` logger."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The `console` logger."""
    yield LoggerComponent(
        name="console",
        target="maze_console.logger:ConsoleLogger",
        options="maze_console.options:ConsoleOptions",
        summary="A live view in a terminal, plain lines when piped.",
        default=True,
    )
