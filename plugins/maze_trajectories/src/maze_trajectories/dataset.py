"""Reading recordings: imitation, demonstrations for off-policy training, and viewers start here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError, SpaceError
from maze_runtime.datasets.contract import Episode, EpisodeInfo
from maze_runtime.datasets.maze_episodes import MazeEpisode
from maze_runtime.datasets.transformed import transformed
from maze_runtime.datasets.transitions import RecordedTransitions, concatenate, flat_transitions
from maze_trajectories.episode_file import SUFFIX, content_of, read_episode, read_info
from maze_trajectories.maze_steps import read_maze_episode
from maze_trajectories.stored_spaces import spaces_from_data
from maze_trajectories.writer import MANIFEST, read_manifest


@attrs.frozen(kw_only=True, eq=False)
class TrajectoryDataset:
    """Recorded episodes; each is read from its file when it is asked for, and not kept.

    >>> dataset = TrajectoryDataset.open("runs/demo/trajectories")  # doctest: +SKIP
    >>> for episode in dataset:  # doctest: +SKIP
    ...     print(episode.info.seed, episode.observation["0"]["observation"].shape)

    Attributes:
        files: one an episode, in the order of their names.
        spaces: of the episodes as they come out, that is, outside of `transforms`.
        transforms: what episodes go through, innermost first.
    """

    files: tuple[Path, ...]
    spaces: StructuredSpaces
    transforms: tuple[Transform, ...] = ()

    @classmethod
    def open(cls, paths: Path | str | Sequence[Path | str]) -> TrajectoryDataset:
        """The episodes of one or several recordings.

        Args:
            paths: each the folder of a recording, a run directory (all its recordings), a folder of recordings, or
                the file of one episode.

        Raises:
            RequestError: there is no recording, or no episode in it.
            SpaceError: the recordings are of environments with different spaces.
            TrajectoryError: a recording is damaged or of another format.
        """
        given = [paths] if isinstance(paths, (str, Path)) else list(paths)
        files = tuple(file for path in given for file in _files(Path(path)))
        if not files:
            raise RequestError(
                f"there are no recorded episodes in {', '.join(map(str, given)) or 'nothing'}",
                help="record some with: maze rollout RUN --record",
            )
        return cls(files=files, spaces=_common_spaces(list(dict.fromkeys(file.parent for file in files))))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Episode:
        episode = read_episode(self.files[index])
        return transformed(episode, self.transforms) if self.transforms else episode

    def __iter__(self) -> Iterator[Episode]:
        return (self[index] for index in range(len(self)))

    def infos(self) -> list[EpisodeInfo]:
        """Identifiers and sums of all episodes; their arrays are not read."""
        return [read_info(file) for file in self.files]

    @property
    def lengths(self) -> list[int]:
        """Decisions of each episode; their arrays are not read."""
        return [info.n_decisions for info in self.infos()]

    def maze_episode(self, index: int, core_env: Any | None = None) -> MazeEpisode | None:
        """MazeStates, MazeActions and events of one episode; see `read_maze_episode`."""
        return read_maze_episode(self.files[index], core_env)

    def through(self, transforms: Sequence[Transform]) -> TrajectoryDataset:
        """The same episodes as a policy outside of these transforms would have seen them and acted.

        Args:
            transforms: innermost first; those of an experiment are `Assembly.make_transforms()`. They are bound here.
        """
        spaces = self.spaces
        for transform in transforms:
            spaces = transform.bind(spaces)
        return attrs.evolve(self, spaces=spaces, transforms=(*self.transforms, *transforms))

    def subset(self, indices: Sequence[int]) -> TrajectoryDataset:
        """Some of the episodes, by their place in `files`."""
        return attrs.evolve(self, files=tuple(self.files[index] for index in indices))

    def without_copies(self) -> TrajectoryDataset:
        """Each episode once, where it was first: those of one seed that are the same to the bit are one episode.

        Files are compared where what their headers sum up agrees.
        """
        first: dict[tuple[EpisodeInfo, bytes], int] = {}
        alike: dict[EpisodeInfo, list[int]] = {}
        for index, info in enumerate(self.infos()):
            alike.setdefault(attrs.evolve(info, episode_id="", policy=""), []).append(index)
        for info, indices in alike.items():
            for index in indices:
                first.setdefault((info, content_of(self.files[index]) if len(indices) > 1 else b""), index)
        return self.subset(sorted(first.values()))

    def split(self, fraction: float, seed: int = 0) -> tuple[TrajectoryDataset, TrajectoryDataset]:
        """Two parts by whole episodes at random: `fraction` of them, rounded, but at least one, and the rest.

        The first part gets at most all but one episode where there are two or more.
        """
        order = np.random.default_rng(seed).permutation(len(self))
        n_first = min(max(round(fraction * len(self)), 1), max(len(self) - 1, 1))
        return self.subset(sorted(order[:n_first].tolist())), self.subset(sorted(order[n_first:].tolist()))

    def flat_transitions(self) -> RecordedTransitions:
        """All steps of all episodes of a flat environment, in memory.

        Raises:
            RequestError: the environment is structured, or no step was recorded.
        """
        parts = [flat_transitions(episode, number) for number, episode in enumerate(self)]
        return concatenate(parts)


def recordings_in(path: Path) -> list[Path]:
    """The folders of the recordings in a recording, a run directory, or a folder of recordings, sorted."""
    if (path / MANIFEST).is_file():
        return [path]
    below = path / "trajectories" if (path / "trajectories").is_dir() else path
    return sorted(manifest.parent for manifest in below.glob(f"*/{MANIFEST}"))


def _files(path: Path) -> list[Path]:
    if path.is_file() and path.name != MANIFEST:
        return [path]
    folder = path.parent if path.is_file() else path
    if not folder.is_dir():
        raise RequestError(f"there is no recording {path}", help="record one with: maze rollout RUN --record")
    return [file for recording in recordings_in(folder) for file in sorted(recording.glob(f"episode-*{SUFFIX}"))]


def _common_spaces(folders: Sequence[Path]) -> StructuredSpaces:
    first, *others = [(folder, read_manifest(folder).spaces) for folder in folders]
    for folder, spaces in others:
        if spaces != first[1]:
            raise SpaceError(
                "the recordings are of environments with different spaces",
                received=str(folder),
                expected=f"the spaces of {first[0]}",
            )
    return spaces_from_data(first[1])
