"""What this plugin provides: the command `view`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """The command `view`."""
    yield CommandComponent(
        name="view",
        target="maze_viewing.commands:view",
        summary="Show recorded episodes as a page for browsers.",
    )
