"""Recordings as a source of episodes: the dataset component "trajectories"."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from maze_kernel.errors import MazeWarning
from maze_runtime.datasets.contract import DatasetContext, Episode, EpisodeInfo
from maze_runtime.datasets.maze_episodes import MazeEpisode
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.options import TrajectoriesOptions


class RecordedEpisodes:
    """Episodes as they were recorded, read from their files one at a time.

    Args:
        dataset: the recordings.
        name: what messages call them.
    """

    def __init__(self, dataset: TrajectoryDataset, name: str) -> None:
        self.name = name
        self.spaces = dataset.spaces
        self._dataset = dataset
        self._infos = dataset.infos()
        self.lengths: Sequence[int] = [info.n_decisions for info in self._infos]

    def infos(self) -> Sequence[EpisodeInfo]:
        """Identifiers and sums of all episodes."""
        return self._infos

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode."""
        return self._dataset[index]

    def maze_episode(self, index: int, core_env: Any | None = None) -> MazeEpisode | None:
        """MazeStates, MazeActions and events of one episode."""
        return self._dataset.maze_episode(index, core_env)

    def close(self) -> None:
        """Nothing is held open."""


def open_recordings(context: DatasetContext, options: TrajectoriesOptions) -> RecordedEpisodes:
    """Open what the options name; of episodes that are the same to the bit, one.

    Raises:
        RequestError: there is no recording, or no episode in it.
        TrajectoryError: a recording is damaged.
    """
    given = TrajectoryDataset.open(context.folder / options.path)
    dataset = given.without_copies()
    if n_copies := len(given) - len(dataset):
        warnings.warn(
            f"{n_copies} of the {len(given)} recorded episodes in {options.path} are copies of others, to the bit, and "
            "are left out; roll out with another seed to record others",
            MazeWarning,
            stacklevel=2,
        )
    return RecordedEpisodes(dataset, options.path)
