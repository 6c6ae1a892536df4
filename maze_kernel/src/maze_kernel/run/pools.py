"""The worker pool of an experiment, with its own number of workers or with another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection
from maze_kernel.workers.inline import InlinePool

if TYPE_CHECKING:
    from maze_kernel.catalog import Catalog
    from maze_kernel.workers.contract import WorkerPool


def make_pool(catalog: Catalog, selection: Selection | None, count: int | None = None) -> WorkerPool:
    """The selected pool; where none is selected the inline one, or the default one if a number of workers is given.

    Args:
        count: workers, instead of the number that the selection says.

    Raises:
        RequestError: the pool has no option `count`.
        PluginError: no installed pool is the default.
    """
    if count is not None:
        if selection is None:
            selection = select(catalog, "workers", catalog.default("workers").component.name)
        selection = _with_count(selection, count)
    return InlinePool() if selection is None else build(selection)


def _with_count(selection: Selection, count: int) -> Selection:
    if selection.takes("count"):
        return selection.with_options(count=count)
    raise RequestError(
        f"the number of workers of pool {selection.use!r} cannot be set: it has no option count",
        received=f"{count} workers",
        owner=selection.owner,
        help="leave the number of workers out, or take 1 to play in this process",
    )
