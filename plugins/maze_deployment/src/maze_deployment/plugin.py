"""What this plugin provides: the command `export`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """The command `export`."""
    yield CommandComponent(
        name="export",
        target="maze_deployment.commands:export",
        summary="Write the policy of a run as a file that acts without Maze.",
    )
