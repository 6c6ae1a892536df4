"""What this distribution provides: the trainer `dqn`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The trainer."""
    yield TrainerComponent(
        name="dqn",
        target="maze_dqn.trainer:DQNTrainer",
        options="maze_dqn.options:DQNOptions",
        takes_modes=True,
        summary="Deep Q-learning: off-policy, for discrete actions; double, duelling, n-step, prioritised.",
    )
