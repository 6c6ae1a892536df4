"""Recorded episodes in the form that a trainer reads them in, whatever they are stored in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from maze_kernel.env.contract import StructuredSpaces
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.trajectories.episode import Episode
from maze_kernel.trajectories.minari_fit import FittedMinari

EpisodeT_co = TypeVar("EpisodeT_co", covariant=True)


class Source(Protocol[EpisodeT_co]):
    """Recorded episodes in the form a trainer wants; each is read when it is asked for, and not kept."""

    @property
    def spaces(self) -> StructuredSpaces:
        """Of the episodes."""
        ...

    @property
    def lengths(self) -> Sequence[int]:
        """Decisions of each episode, over all policy keys."""
        ...

    def expect(self, episodes: Sequence[int]) -> None:
        """These will be read soon, and they fit into memory: whoever can reads them ahead."""
        ...

    def read(self, index: int) -> EpisodeT_co: ...

    def close(self) -> None: ...


class RecordedEpisodes:
    """Episodes as they were recorded.

    Args:
        episodes: a recording, or a Minari dataset in the spaces of an environment.
    """

    def __init__(self, episodes: TrajectoryDataset | FittedMinari) -> None:
        self._episodes = episodes
        self.spaces = episodes.spaces
        self.lengths: Sequence[int] = episodes.lengths

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode."""
        return self._episodes[index]

    def close(self) -> None:
        """Nothing is held open."""
