"""What this plugin provides: the `csv` logger."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The `csv` logger."""
    yield LoggerComponent(
        name="csv",
        target="maze_csv.logger:CsvLogger",
        options="maze_csv.options:CsvOptions",
        summary="Statistics of every epoch as CSV files in the run directory.",
        default=True,
    )
