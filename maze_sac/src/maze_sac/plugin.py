"""What this distribution provides: the trainer `sac`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The trainer."""
    yield TrainerComponent(
        name="sac",
        target="maze_sac.trainer:SACTrainer",
        options="maze_sac.options:SACOptions",
        critic="state-action",
        summary="Soft actor-critic: off-policy, for continuous, discrete and mixed actions.",
    )
