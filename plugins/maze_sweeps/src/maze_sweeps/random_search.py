"""Independent draws from a space; each follows from the seed and the number of the trial alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.errors import RequestError
from maze_sweeps.contract import SearchContext
from maze_sweeps.ranges import draw_value
from maze_sweeps.searching import ListSearcher
from maze_sweeps.space import Choice, Draw, Leaf, Range


class RandomSearcher(ListSearcher):
    """Draws as many trials as are wanted; a sweep that goes on draws what it would have drawn.

    Raises:
        RequestError: no number of trials is wanted.
    """

    def __init__(self, context: SearchContext) -> None:
        super().__init__([])
        if context.n_trials == 0:
            raise RequestError(
                "a random search has no end of its own", option="n_trials", help="add n_trials = 20 at the top"
            )
        self._context = context

    def propose(self, number: int) -> Draw | None:
        """See `Searcher`."""
        if number >= self._context.n_trials:
            return None
        random = np.random.default_rng((self._context.seed, number))
        return self._context.space.walk(lambda leaf: _drawn(leaf, random))


def _drawn(leaf: Leaf, random: np.random.Generator) -> Any:
    if isinstance(leaf, Range):
        return draw_value(leaf, random)
    if isinstance(leaf, Choice):
        return leaf.branches[int(random.integers(len(leaf.branches)))].label
    return leaf.values[int(random.integers(len(leaf.values)))]
