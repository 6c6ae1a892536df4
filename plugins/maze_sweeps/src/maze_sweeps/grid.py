"""Every combination of a space, in a fixed order: the last leaf changes fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from maze_kernel.errors import RequestError
from maze_sweeps.contract import SearchContext
from maze_sweeps.ranges import grid_values
from maze_sweeps.searching import ListSearcher
from maze_sweeps.space import Choice, Draw, Leaf, Space, Values

MAX_TRIALS = 10_000


class GridSearcher(ListSearcher):
    """Tries every combination once; a wanted number of trials ends it earlier.

    Raises:
        RequestError: a range has no points, or there are more than ten thousand combinations and no number of trials.
    """

    def __init__(self, context: SearchContext) -> None:
        super().__init__([])
        self._space = context.space
        for leaf in _all_leaves(context.space.leaves):
            if not isinstance(leaf, Choice) and not _values(leaf):
                raise RequestError(
                    f"a grid cannot try every number of {leaf.path}",
                    expected="a range with points or a step",
                    option=leaf.name,
                    help="add points = 5, or use another searcher",
                )
        size = grid_size(context.space.leaves)
        self.n_trials = min(size, context.n_trials) if context.n_trials else size
        if self.n_trials > MAX_TRIALS:
            raise RequestError(
                f"the grid has {size:,} combinations",
                expected=f"at most {MAX_TRIALS:,}",
                option="n_trials",
                help="try fewer values, set n_trials, or use another searcher",
            )

    def propose(self, number: int) -> Draw | None:
        """See `Searcher`."""
        return grid_draw(self._space, number) if number < self.n_trials else None


def grid_size(leaves: Sequence[Leaf]) -> int:
    """How many combinations there are."""
    return math.prod(
        sum(grid_size(branch.leaves) for branch in leaf.branches) if isinstance(leaf, Choice) else len(_values(leaf))
        for leaf in leaves
    )


def grid_draw(space: Space, number: int) -> Draw:
    """The combination of that number, from 0 to `grid_size` − 1."""
    draw: dict[str, Any] = {}
    _fill(space.leaves, number, draw)
    return draw


def _fill(leaves: Sequence[Leaf], number: int, draw: dict[str, Any]) -> None:
    for index, leaf in enumerate(leaves):
        place, number = divmod(number, grid_size(leaves[index + 1 :]))
        if not isinstance(leaf, Choice):
            draw[leaf.name] = _values(leaf)[place]
            continue
        for branch in leaf.branches:
            size = grid_size(branch.leaves)
            if place < size:
                draw[leaf.name] = branch.label
                _fill(branch.leaves, place, draw)
                break
            place -= size


def _values(leaf: Leaf) -> Sequence[Any]:
    assert not isinstance(leaf, Choice)
    return leaf.values if isinstance(leaf, Values) else grid_values(leaf)


def _all_leaves(leaves: Sequence[Leaf]) -> list[Leaf]:
    found: list[Leaf] = []
    for leaf in leaves:
        found.append(leaf)
        for branch in leaf.branches if isinstance(leaf, Choice) else ():
            found += _all_leaves(branch.leaves)
    return found
