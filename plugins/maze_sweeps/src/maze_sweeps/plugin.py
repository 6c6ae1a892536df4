"""What this plugin provides."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import SearcherComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_searchers() -> Iterable[SearcherComponent]:
    """Grid and random search."""
    yield from ()
