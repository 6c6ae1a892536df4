"""What this plugin provides: the `wandb` logger."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The `wandb` logger."""
    yield LoggerComponent(
        name="wandb",
        target="maze_wandb.logger:WandbLogger",
        options="maze_wandb.options:WandbOptions",
        summary="Statistics, configuration and the best model on Weights & Biases.",
    )
