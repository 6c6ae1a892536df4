"""What this distribution provides: the trainer `td3`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The trainer."""
    yield TrainerComponent(
        name="td3",
        target="maze_td3.trainer:TD3Trainer",
        options="maze_td3.options:TD3Options",
        critic="state-action",
        n_envs=1,
        preset="maze-perception:dense-128",
        takes_modes=True,
        summary="Twin delayed DDPG: off-policy, a deterministic policy for numbers; 1 environment by default.",
    )
