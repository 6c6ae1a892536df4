"""Minari datasets of this machine as recorded episodes: nothing is fetched, and episodes are read one at a time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError
from maze_runtime.datasets.contract import Episode
from maze_runtime.datasets.flat_episodes import flat_episode
from maze_runtime.env.batching import layout
from maze_runtime.env.flat import flat_spaces

PLAIN = ("observation", "action")
"""The only name in a Dict space that stands for what has no name in Minari."""


class MinariSource:
    """Episodes of a Minari dataset, as those of a flat environment.

    Nested Dict and Tuple spaces become one array a leaf, named as maze-gym names them (`camera_left`, `observation_0`).

    Args:
        name: of a dataset in the local Minari folder, or the dataset's own folder.
        folder: where relative paths begin.

    Attributes:
        name: as given.
        spaces: one array a leaf.
        lengths: steps of each episode.

    Raises:
        RequestError: Minari is not installed, or there is no such dataset on this machine.
        SpaceError: a leaf has no array form.
    """

    def __init__(self, name: str, folder: Path = Path()) -> None:
        self.name = name
        self._dataset = _open(name, folder / name / "data")
        self._indices = [int(index) for index in self._dataset.episode_indices]
        self._about = list(self._dataset.storage.get_episode_metadata(self._indices))
        self.lengths: Sequence[int] = [int(about["total_steps"]) for about in self._about]
        given = self._dataset.observation_space, self._dataset.action_space
        self.spaces = flat_spaces(*(_flattened(space, plain) for space, plain in zip(given, PLAIN, strict=True)))
        for space in (*self.spaces.observation.values(), *self.spaces.action.values()):
            layout(space)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> Episode:
        """One episode, read now and not kept; Minari's last observation, after the last step, is the final one."""
        (data,) = self._dataset.iterate_episodes([self._indices[index]])
        return flat_episode(
            episode_id=str(uuid.uuid4()),
            observation=self._arrays(data.observations, self._dataset.observation_space, PLAIN[0]),
            action=self._arrays(data.actions, self._dataset.action_space, PLAIN[1]),
            reward=data.rewards,
            terminated=np.asarray(data.terminations, np.bool_),
            truncated=np.asarray(data.truncations, np.bool_),
            seed=self._about[index].get("seed"),
            policy=f"Minari dataset {self.name}",
        )

    def _arrays(self, values: Any, space: spaces.Space[Any], plain: str) -> ArrayDict:
        return {name: np.asarray(array, leaf.dtype) for name, leaf, array in _leaves(space, values, plain, top=True)}


def require_minari() -> Any:
    """The package minari.

    Raises:
        RequestError: it is not installed, or h5py or Pillow is not: Minari's files need both, and it declares neither.
    """
    try:
        import h5py  # noqa: F401
        import minari
        import PIL  # noqa: F401
    except ImportError as error:
        raise RequestError(
            f"Minari datasets need the package {error.name}, which is not installed",
            help="pip install 'maze-trajectories[minari]'",
        ) from error
    return minari


def _open(name: str, data: Path) -> Any:
    minari = require_minari()
    try:
        return minari.MinariDataset(data) if data.is_dir() else minari.load_dataset(name)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise RequestError(
            f"there is no Minari dataset {name!r} on this machine: {error}",
            nearest=tuple(sorted(minari.list_local_datasets())[:3]),
            help=f"fetch it with: minari download {name}",
        ) from error


def _flattened(space: spaces.Space[Any], plain: str) -> spaces.Dict:
    return spaces.Dict({name: leaf for name, leaf, _ in _leaves(space, None, plain, top=True)})


def _leaves(
    space: spaces.Space[Any], values: Any, name: str, *, top: bool = False
) -> Iterator[tuple[str, spaces.Space[Any], Any]]:
    """The parts of a nested space with their joined names, and of `values`, if there are any."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        is_named = top and isinstance(space, spaces.Dict)
        for key, child in children:
            part = None if values is None else values[key]
            yield from _leaves(child, part, str(key) if is_named else f"{name}_{key}")
    else:
        yield name, space, values
