"""What maze-gym provides: the environment components "gym" and "gym-vector"."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs() -> Iterable[EnvComponent]:
    """Gymnasium environments and batches of them."""
    yield EnvComponent(
        name="gym",
        target="maze_gym.env:make_env",
        vector_target="maze_gym.native_vector:make_vector_env",
        adapts="maze_gym.env:adapt",
        options="maze_gym.options:GymOptions",
        default=True,
        summary="Any Gymnasium environment by id, or your own class or factory of one.",
    )
    yield EnvComponent(
        name="gym-vector",
        target="maze_gym.user_batch:make_env",
        vector_target="maze_gym.user_batch:make_vector_env",
        options="maze_gym.options:GymVectorOptions",
        summary="Your own simulation of many environments at once, a gymnasium.vector.VectorEnv.",
    )
