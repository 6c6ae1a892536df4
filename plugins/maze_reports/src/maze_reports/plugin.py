"""What this plugin provides: the commands `list-runs`, `compare` and `report`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """The commands `list-runs`, `compare` and `report`."""
    yield CommandComponent(
        name="list-runs",
        target="maze_reports.commands:list_runs",
        summary="List the runs in a folder with state, evaluation and seed.",
    )
    yield CommandComponent(
        name="compare",
        target="maze_reports.commands:compare",
        summary="Compare runs: groups of seeds, intervals, probability of improvement.",
    )
    yield CommandComponent(
        name="report",
        target="maze_reports.commands:report",
        summary="Write what runs came to as one page for browsers.",
    )
