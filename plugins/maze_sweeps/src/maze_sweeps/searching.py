"""A searcher that tries what it is given, one after the other, and gives nothing up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maze_sweeps.contract import PastTrial
from maze_sweeps.space import Draw


class ListSearcher:
    """Tries draws in their order; see `Searcher`. Also a base for searchers that override some of its methods."""

    def __init__(self, draws: Sequence[Draw]) -> None:
        self._draws = list(draws)

    def restore(self, trials: Sequence[PastTrial]) -> None:
        """The number of a trial says which draw it is: nothing has to be remembered."""

    def propose(self, number: int) -> Draw | None:
        """See `Searcher`."""
        return self._draws[number] if number < len(self._draws) else None

    def report(self, number: int, step: int, value: float) -> bool:
        """See `Searcher`."""
        return False

    def finish(self, number: int, state: str, value: float | None) -> None:
        """See `Searcher`."""

    def importances(self) -> Mapping[str, float]:
        """See `Searcher`."""
        return {}

    def close(self) -> None:
        """See `Searcher`."""
