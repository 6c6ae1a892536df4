"""What this distribution provides: the trainer `impala`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The one trainer."""
    yield TrainerComponent(
        name="impala",
        target="maze_impala.trainer:ImpalaTrainer",
        options="maze_impala.options:ImpalaOptions",
        summary="IMPALA: actors collect without waiting for the learner, which corrects with V-trace.",
    )
