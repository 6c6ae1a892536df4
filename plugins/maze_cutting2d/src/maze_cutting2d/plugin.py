"""What maze-cutting2d provides: the environment "cutting-2d" and the policy "cutting-2d-greedy"."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent, PolicyComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs() -> Iterable[EnvComponent]:
    """The problem in its three versions."""
    yield EnvComponent(
        name="cutting-2d",
        target="maze_cutting2d.env:make_env",
        options="maze_cutting2d.options:CuttingOptions",
        summary="Cuts customer orders from an inventory of pieces; flat, in two sub-steps, or in two with masks.",
    )


@hookimpl
def maze_policies() -> Iterable[PolicyComponent]:
    """A heuristic to compare with."""
    yield PolicyComponent(
        name="cutting-2d-greedy",
        target="maze_cutting2d.greedy:GreedyPolicy",
        summary="Cuts from the smallest piece that fits, and keeps leftovers long.",
    )
