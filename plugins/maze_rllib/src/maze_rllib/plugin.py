"""What this distribution provides: the trainer `rllib`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The one trainer."""
    yield TrainerComponent(
        name="rllib",
        target="maze_rllib.trainer:RLlibTrainer",
        options="maze_rllib.options:RLlibOptions",
        collects_rollouts=True,
        summary="Algorithms of Ray RLlib: PPO, DQN, SAC, APPO and IMPALA, with RLlib's own keys.",
    )
