"""Which orders come in: always one, several in turn, or random ones."""

from __future__ import annotations

import numpy as np

from maze_cutting2d.options import CuttingOptions, Size


class Demand:
    """An endless series of orders."""

    def __init__(self, options: CuttingOptions) -> None:
        self._random_sides = options.random_sides if options.demand == "random" else None
        self._orders = [(order[0], order[1]) for order in options.orders]
        if options.demand == "static":
            del self._orders[1:]
        self._position = 0
        self._rng = np.random.default_rng()

    def reset(self, seed: int | None) -> None:
        """Begin the series again; without a seed random orders go on."""
        self._position = 0
        if seed is not None:
            self._rng = np.random.default_rng(seed)

    def next(self) -> Size:
        """The next order."""
        if self._random_sides is not None:
            x, y = self._rng.integers(*self._random_sides, size=2, endpoint=True).tolist()
            return x, y
        order = self._orders[self._position % len(self._orders)]
        self._position += 1
        return order
