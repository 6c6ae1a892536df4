"""The seeds of successive episodes in a batch, and how far each environment is in its current one.

Every vector environment that resets environments one by one shares this bookkeeping.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_kernel.errors import RequestError


class EpisodeSeeds:
    """Hands out `reset` seeds by environment; an environment whose seeds are used up gets None.

    Args:
        n_envs: environments of the batch.
        first_index: number of the first one in messages, where the batch is part of a larger one.

    Attributes:
        steps: (N,) int64, decisions taken in the current episode.
    """

    def __init__(self, n_envs: int, first_index: int = 0) -> None:
        self.n_envs = n_envs
        self._first_index = first_index
        self.steps = np.zeros(n_envs, np.int64)
        self._seeds: list[list[int]] = [[] for _ in range(n_envs)]
        self._next = [0] * n_envs

    def restart(self, seeds: Sequence[Sequence[int]]) -> None:
        """Forget everything and take new seeds, one sequence an environment."""
        if len(seeds) != self.n_envs:
            raise RequestError(
                "the number of seed sequences is not the number of environments",
                received=str(len(seeds)),
                expected=str(self.n_envs),
            )
        self._seeds = [[int(seed) for seed in sequence] for sequence in seeds]
        self._next = [0] * self.n_envs
        self.steps[:] = 0

    def begin(self, index: int) -> int | None:
        """The seed of the episode that environment `index` starts now."""
        position = self._next[index]
        self._next[index] = position + 1
        self.steps[index] = 0
        own = self._seeds[index]
        return own[position] if position < len(own) else None

    def last_seed(self, index: int) -> int | None:
        """The seed of environment `index`'s last seeded episode; None where it had none."""
        begun = self._seeds[index][: self._next[index]]
        return begun[-1] if begun else None

    def describe(self, index: int) -> str:
        """Where environment `index` is, for an error message."""
        position, own = self._next[index] - 1, self._seeds[index]
        name = index + self._first_index
        if position < 0:
            return f"environment {name}, before its first episode"
        if position < len(own):
            seed = f"seed {own[position]}"
        elif own:
            seed = f"unseeded, {position - len(own) + 1} episodes after seed {own[-1]}"
        else:
            seed = "unseeded"
        return f"environment {name}, episode {position} ({seed}), step {int(self.steps[index])}"
