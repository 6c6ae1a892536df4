"""What this distribution provides: the trainer `es`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The one trainer."""
    yield TrainerComponent(
        name="es",
        target="maze_es.trainer:EvolutionTrainer",
        options="maze_es.options:ESOptions",
        critic="none",
        summary="Evolution strategies: whole episodes with perturbed weights, no backpropagation.",
    )
