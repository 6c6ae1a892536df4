"""What maze-pettingzoo provides: the environment components "pettingzoo" and "pettingzoo-vector"."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs() -> Iterable[EnvComponent]:
    """PettingZoo games, and batches of games."""
    yield EnvComponent(
        name="pettingzoo",
        target="maze_pettingzoo.env:make_env",
        adapts="maze_pettingzoo.env:adapt",
        options="maze_pettingzoo.options:PettingZooOptions",
        summary="Any PettingZoo game, agents in turn or all at once, with action masks.",
    )
    yield EnvComponent(
        name="pettingzoo-vector",
        target="maze_pettingzoo.batch_of_games:make_env",
        vector_target="maze_pettingzoo.vector_games:make_vector_env",
        options="maze_pettingzoo.options:PettingZooVectorOptions",
        summary="Your own simulation of many games at once, in which all agents act at every step.",
    )
