"""The kernel's own plugin, registered like any other: worker pools, the random policy and the replay of recordings."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel.components import PolicyComponent, WorkersComponent
from maze_kernel.hookspecs import hookimpl

MAZE_PLUGIN_API = 1


@hookimpl
def maze_workers() -> Iterable[WorkersComponent]:
    """The pools that need nothing but the standard library."""
    yield WorkersComponent(
        name="inline",
        target="maze_kernel.workers.inline:InlinePool",
        options="maze_kernel.workers.options:WorkersOptions",
        summary="Runs actors in this process, one after the other.",
    )
    yield WorkersComponent(
        name="subprocess",
        target="maze_kernel.workers.subprocess:SubprocessPool",
        options="maze_kernel.workers.options:WorkersOptions",
        summary="Runs each actor in a process of its own on this machine, with shared memory.",
    )


@hookimpl
def maze_policies() -> Iterable[PolicyComponent]:
    """Policies that learn nothing."""
    yield PolicyComponent(
        name="random",
        target="maze_kernel.rollout.random_policy:RandomPolicy",
        summary="Samples every action uniformly from its space; respects action masks.",
    )
    yield PolicyComponent(
        name="replay",
        target="maze_kernel.trajectories.replay:ReplayPolicy",
        options="maze_kernel.trajectories.options:ReplayOptions",
        summary="Takes the actions of recorded episodes again, by the seed of the episode.",
    )
