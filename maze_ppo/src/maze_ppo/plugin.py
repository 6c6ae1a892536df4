"""What this distribution provides: the trainers `ppo` and `a2c`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """Both trainers."""
    yield TrainerComponent(
        name="ppo",
        target="maze_ppo.ppo:make_ppo",
        options="maze_ppo.options:PPOOptions",
        recurrent=True,
        default=True,
        summary="Proximal policy optimisation: clipped policy updates from on-policy rollouts.",
    )
    yield TrainerComponent(
        name="a2c",
        target="maze_ppo.a2c:make_a2c",
        options="maze_ppo.options:A2COptions",
        recurrent=True,
        summary="Advantage actor-critic: one synchronous gradient step a rollout.",
    )
