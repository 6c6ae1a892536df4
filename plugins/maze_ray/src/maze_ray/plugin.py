"""What this plugin provides: the worker pool `ray`. Ray itself is imported when the pool is built."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import WorkersComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_workers() -> Iterable[WorkersComponent]:
    """The pool `ray`."""
    yield WorkersComponent(
        name="ray",
        target="maze_ray.pool:RayPool",
        options="maze_ray.options:RayOptions",
        summary="Runs each actor in a process somewhere on a Ray cluster, without shared memory.",
    )
