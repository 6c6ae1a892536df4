"""What this plugin provides: the `tensorboard` logger."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The `tensorboard` logger."""
    yield LoggerComponent(
        name="tensorboard",
        target="maze_tensorboard.logger:TensorBoardLogger",
        options="maze_tensorboard.options:TensorBoardOptions",
        summary="Statistics of every epoch for TensorBoard.",
        default=True,
    )
