"""Minari datasets as demonstrations. Nothing is downloaded, and episodes are read one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_bc.data import OWNER, Decisions, Episode
from maze_kernel.env.contract import StructuredSpaces
from maze_kernel.env.tick import ArrayDict
from maze_kernel.errors import RequestError, SpaceError


def open_minari(name: str, wanted: StructuredSpaces) -> MinariEpisodes:
    """A dataset of the local Minari folder by its name, or one by its own folder.

    Raises:
        RequestError: Minari is not installed, or there is no such dataset here.
        SpaceError: its spaces are not those of the environment.
    """
    try:
        import minari
    except ImportError as error:
        raise RequestError(
            "reading Minari datasets needs the package minari",
            owner=OWNER,
            help="pip install 'maze-bc[minari]'",
        ) from error
    folder = Path(name) / "data"
    try:
        dataset = minari.MinariDataset(folder) if folder.is_dir() else minari.load_dataset(name)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise RequestError(
            f"there is no Minari dataset {name!r} here: {error}",
            owner=OWNER,
            help="minari list local shows those that are; minari download NAME fetches one",
        ) from error
    return MinariEpisodes(dataset, wanted)


class MinariEpisodes:
    """The episodes of a Minari dataset in the spaces of a flat environment.

    Dict and Tuple spaces are flattened as maze-gym does (`camera_left`, `observation_0`); numbers are cast to the dtype
    of the environment's space, and Discrete actions are counted from its start.

    Args:
        dataset: a `minari.MinariDataset`.
        wanted: the spaces of the training environment, inside of its transforms.

    Raises:
        SpaceError: the environment is not flat, or names and shapes differ.
    """

    def __init__(self, dataset: Any, wanted: StructuredSpaces) -> None:
        if not wanted.is_flat:
            raise SpaceError(
                "Minari datasets hold flat environments only",
                received=f"policy keys {', '.join(wanted.policy_keys)}",
                owner=OWNER,
                help='record the episodes with Maze: demonstrations = { path = "..." }',
            )
        self.spaces = wanted
        self._dataset = dataset
        self._indices = [int(index) for index in dataset.episode_indices]
        self._key = wanted.policy_keys[0]
        metadata = dataset.storage.get_episode_metadata(self._indices)
        self.lengths: Sequence[int] = [int(episode["total_steps"]) for episode in metadata]

    def read(self, index: int) -> Episode:
        """One episode."""
        (data,) = self._dataset.iterate_episodes([self._indices[index]])
        n, key, dataset = self.lengths[index], self._key, self._dataset
        observation = _table(dataset.observation_space, data.observations, "observation", self.spaces.observation[key])
        action = _table(dataset.action_space, data.actions, "action", self.spaces.action[key])
        # one more observation than actions: that after the last step
        observation = {name: array[:n] for name, array in observation.items()}
        return {key: Decisions(observation, action, np.zeros(n, np.int64), np.arange(n))}

    def close(self) -> None:
        """Nothing is held open."""


def _table(space: spaces.Space, values: Any, name: str, wanted: spaces.Dict) -> ArrayDict:
    found = {key: (leaf, array) for key, leaf, array in _leaves(space, values, name, top=True)}
    if set(found) != set(wanted.spaces):
        raise SpaceError(
            f"the {name}s of the Minari dataset have other names than the environment's",
            received=", ".join(sorted(found)),
            expected=", ".join(sorted(wanted.spaces)),
            owner=OWNER,
        )
    return {key: _fitted(*found[key], leaf, key) for key, leaf in wanted.spaces.items()}


def _leaves(
    space: spaces.Space, values: Any, name: str, *, top: bool = False
) -> Iterator[tuple[str, spaces.Space, np.ndarray]]:
    """The parts of a nested space with their joined names."""
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            yield from _leaves(child, values[key], key if top else f"{name}_{key}")
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            yield from _leaves(child, values[index], f"{name}_{index}")
    else:
        yield name, space, np.asarray(values)


def _fitted(theirs: spaces.Space, array: np.ndarray, ours: spaces.Space, name: str) -> np.ndarray:
    shape: Any = ours.shape
    if array.shape[1:] != tuple(shape or ()) or type(theirs) is not type(ours):
        raise SpaceError(
            f"{name!r} of the Minari dataset does not fit the environment",
            received=f"{theirs} with rows of shape {array.shape[1:]}",
            expected=str(ours),
            owner=OWNER,
        )
    shift = np.asarray(getattr(ours, "start", 0)) - np.asarray(getattr(theirs, "start", 0))
    shifted = array + shift if np.any(shift) else array
    return shifted.astype(ours.dtype, copy=False)
