"""What this plugin provides: the `trackio` logger."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The `trackio` logger."""
    yield LoggerComponent(
        name="trackio",
        target="maze_trackio.logger:TrackioLogger",
        options="maze_trackio.options:TrackioOptions",
        summary="Statistics, configuration and the best model in the local database of trackio.",
    )
