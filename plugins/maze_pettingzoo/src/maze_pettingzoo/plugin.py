"""What maze-pettingzoo provides: the environment component "pettingzoo"."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs() -> Iterable[EnvComponent]:
    """Any PettingZoo game."""
    yield EnvComponent(
        name="pettingzoo",
        target="maze_pettingzoo.env:make_env",
        adapts="maze_pettingzoo.env:adapt",
        options="maze_pettingzoo.options:PettingZooOptions",
        summary="Any PettingZoo game, agents in turn or all at once, with action masks.",
    )
