"""The worker pool of an experiment, with its own number of workers or with another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.run.naming import name_of_default
from maze_runtime.workers.inline import InlinePool

if TYPE_CHECKING:
    from pathlib import Path

    from maze_kernel.catalog import Catalog
    from maze_kernel.contracts.workers import WorkerPool


@runtime_checkable
class KnowsLastingPlaces(Protocol):
    """A pool that can tell where a run directory would be lost with the job that the caller is."""

    def check_run_directory(self, path: Path) -> None:
        """Nothing where a run there stays.

        Raises:
            RequestError: it would not.
        """
        ...


@runtime_checkable
class KnowsRoom(Protocol):
    """A pool that can tell before anything starts whether actors that are callers themselves have room."""

    def check_room(self, n_actors: int) -> None:
        """Nothing where every actor may have `n_workers` actors of its own on the same machines.

        Raises:
            RequestError: they would wait for each other.
        """
        ...


def make_pool(selection: Selection | None) -> WorkerPool:
    """The selected pool; the inline one where none is selected. Survives transport in a `partial`."""
    return InlinePool() if selection is None else build(selection)


def with_count(catalog: Catalog, selection: Selection | None, count: int) -> Selection:
    """The pool with another number of workers; the default pool where none is selected.

    Raises:
        RequestError: the pool has no option `count`.
        PluginError: no installed pool is the default.
    """
    if selection is None:
        selection = select(catalog, "workers", _default(catalog))
    if selection.takes("count"):
        return selection.with_options(count=count)
    raise RequestError(
        f"the number of workers of pool {selection.use!r} cannot be set: it has no option count",
        received=f"{count} workers",
        owner=selection.owner,
        help="leave the number of workers out, or take 1 to play in this process",
    )


def _default(catalog: Catalog) -> str:
    try:
        return name_of_default(catalog, "workers")
    except PluginError as error:
        error.help = f"{error.help}, or name a pool in the experiment's [workers] table"
        raise
