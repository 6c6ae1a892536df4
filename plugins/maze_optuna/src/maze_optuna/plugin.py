"""What this plugin provides: the searcher `optuna`. Optuna itself is imported when the searcher is built."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import SearcherComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_searchers() -> Iterable[SearcherComponent]:
    """The searcher `optuna`."""
    yield SearcherComponent(
        name="optuna",
        target="maze_optuna.searcher:OptunaSearcher",
        options="maze_optuna.options:OptunaOptions",
        summary="Learns from finished trials what to try next, and gives bad trials up: Optuna's samplers and pruners.",
    )
