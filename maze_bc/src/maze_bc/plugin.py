"""What this distribution provides: the trainer `bc`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The trainer."""
    yield TrainerComponent(
        name="bc",
        target="maze_bc.trainer:make_bc",
        options="maze_bc.options:BCOptions",
        critic="none",
        collects_rollouts=True,
        recurrent=True,
        summary="Behavioural cloning: learns the actions of recorded episodes, without playing itself.",
    )
