"""What this plugin provides: the `mlflow` logger."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import LoggerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_loggers() -> Iterable[LoggerComponent]:
    """The `mlflow` logger."""
    yield LoggerComponent(
        name="mlflow",
        target="maze_mlflow.logger:MlflowLogger",
        options="maze_mlflow.options:MlflowOptions",
        summary="Statistics, configuration and the best model on an MLflow server.",
    )
