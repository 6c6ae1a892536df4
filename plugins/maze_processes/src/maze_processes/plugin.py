"""What this plugin provides: the worker pool `subprocess` and the vector mode of that name."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import VectorComponent, WorkersComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_workers() -> Iterable[WorkersComponent]:
    """The pool `subprocess`."""
    yield WorkersComponent(
        name="subprocess",
        target="maze_processes.pool:SubprocessPool",
        options="maze_runtime.workers.options:WorkersOptions",
        summary="Runs each actor in a process of its own on this machine, with shared memory.",
        default=True,
    )


@hookimpl
def maze_vectors() -> Iterable[VectorComponent]:
    """The mode `subprocess`."""
    yield VectorComponent(
        name="subprocess",
        target="maze_processes.subprocess_mode:subprocess_batch",
        options="maze_processes.vector_options:SubprocessVectorOptions",
        summary="Several environments in each of several processes.",
        in_process=False,
    )
