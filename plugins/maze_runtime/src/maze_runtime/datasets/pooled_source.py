"""Recorded episodes that are read on the worker pool, ahead of when they are wanted.

Reading means more than files: MazeStates go through the conversions and wrappers of an environment, which takes as
long as the user's code does. Every worker opens the data, and builds that environment, for itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Generic, TypeVar

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.workers import ActorContext, ActorGroup, Future, GroupOptions, WorkerPool
from maze_kernel.errors import MazeWarning
from maze_runtime.datasets.contract import Source
from maze_runtime.workers.repeatable import result_or_again

EpisodeT = TypeVar("EpisodeT")


class PooledSource(Generic[EpisodeT]):
    """Reads episodes on workers, each in turn; an episode that a dying worker had begun is read by its replacement.

    Args:
        pool: closed with this object.
        open_source: how each worker opens the data; survives transport to it.

    Raises:
        MazeError: what opening them raises.
    """

    def __init__(self, pool: WorkerPool, open_source: Callable[[], Source[EpisodeT]]) -> None:
        self._pool = pool
        self._turns = count()
        self._begun: dict[int, tuple[int, Future]] = {}
        try:
            self._group: ActorGroup = pool.spawn(
                partial(_Reader, open_source), pool.n_workers, GroupOptions(light=True)
            )
            self.spaces: StructuredSpaces
            self.lengths: Sequence[int]
            self.spaces, self.lengths = self._group.call(0, "describe").result()
        except BaseException:
            pool.close()
            raise

    def expect(self, episodes: Sequence[int]) -> None:
        """Let workers begin with these."""
        for index in episodes:
            if index not in self._begun:
                actor = next(self._turns) % self._group.n_actors
                self._begun[index] = actor, self._group.call(actor, "read", index)

    def read(self, index: int) -> EpisodeT:
        """One episode; waits for it."""
        self.expect([index])
        actor, future = self._begun.pop(index)
        episode: EpisodeT = result_or_again(future, partial(self._group.call, actor, "read", index))
        return episode

    def close(self) -> None:
        """Stop the workers."""
        self._pool.close()


class _Reader(Generic[EpisodeT]):
    """Reads in a worker; opens the data at the first call, so that what is wrong with them is raised as it is."""

    def __init__(self, open_source: Callable[[], Source[EpisodeT]], _context: ActorContext) -> None:
        self._open = open_source
        self._opened: Source[EpisodeT] | None = None

    def describe(self) -> tuple[StructuredSpaces, Sequence[int]]:
        opened = self._source()
        return opened.spaces, list(opened.lengths)

    def read(self, index: int) -> EpisodeT:
        if self._opened is None:
            with warnings.catch_warnings(action="ignore", category=MazeWarning):  # said when they were described
                self._source()
        return self._source().read(index)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _source(self) -> Source[EpisodeT]:
        if self._opened is None:
            self._opened = self._open()
        return self._opened
