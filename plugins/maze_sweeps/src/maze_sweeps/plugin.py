"""What this plugin provides: the commands `sweep` and `sweep-schema`, grids and random search."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import CommandComponent, SearcherComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_searchers() -> Iterable[SearcherComponent]:
    """Grid and random search."""
    yield SearcherComponent(
        name="grid",
        target="maze_sweeps.grid:GridSearcher",
        summary="Every combination, in a fixed order; the last setting changes fastest.",
    )
    yield SearcherComponent(
        name="random",
        target="maze_sweeps.random_search:RandomSearcher",
        summary="Independent draws, each from the seed and the number of the trial.",
        default=True,
    )


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """Sweeps, and the schema of their files."""
    yield CommandComponent(
        name="sweep",
        target="maze_sweeps.commands:sweep",
        summary="Try settings of an experiment, in parallel, and find the best.",
    )
    yield CommandComponent(
        name="sweep-schema",
        target="maze_sweeps.commands:sweep_schema",
        summary="Print the JSON Schema of sweep files, for editors.",
    )
