"""Recordings of flat environments to Minari datasets and back, on this machine: nothing is fetched or sent.

Minari knows neither policy keys nor MazeStates, so only observations, actions, rewards, ends and seeds travel.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError
from maze_runtime.datasets.transitions import flat_transitions
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.minari_source import PLAIN, MinariSource, require_minari
from maze_trajectories.writer import TrajectoryWriter, episode_name

_CHUNK = 100
"""Episodes in memory at a time."""


def export_to_minari(dataset: TrajectoryDataset, dataset_id: str, *, policy: str = "") -> int:
    """Make a Minari dataset of a recording; returns the number of its steps.

    A step whose next observation was not recorded, the last one before a failure, is left out. An episode that was cut
    off ends as truncated.

    Args:
        dataset: of a flat environment.
        dataset_id: `namespace/name-v0`; the dataset must not exist yet.
        policy: who played, as text.

    Raises:
        RequestError: the environment is structured, Minari's files cannot have one of its names, Minari is not
            installed, or the id is malformed or taken.
    """
    minari = require_minari()
    if not dataset.spaces.is_flat:
        raise RequestError(
            "a Minari dataset cannot hold a structured environment",
            received=f"policy keys {', '.join(map(repr, dataset.spaces.policy_keys))}",
            help="keep the recording as it is; maze-bc reads it",
        )
    named = (*dataset.spaces.observation.values(), *dataset.spaces.action.values())
    if torn := [name for space in named for name in space.spaces if "/" in name or name in ("", ".")]:
        raise RequestError(
            f"a Minari dataset cannot hold what is called {torn[0]!r}",
            expected="a name without a slash",
            help="rename it in the environment and record anew, or keep the recording as it is; maze-bc reads it",
        )
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)  # before anything is made: Minari itself leaves a folder behind
    except ValueError as error:
        raise RequestError(f"Minari refuses the name: {error}", expected="an id like maze/cartpole-v0") from error
    if dataset_id in minari.list_local_datasets():
        raise RequestError(f"there is a Minari dataset {dataset_id!r} already", help="choose another name or version")
    with warnings.catch_warnings():
        # Of an author, a description and a link to code, which a recording has none of
        warnings.filterwarnings("ignore", category=UserWarning, module="minari")
        return _write(minari, dataset, dataset_id, policy)


def import_from_minari(dataset_id: str, folder: Path) -> int:
    """Make a recording of a Minari dataset of this machine; returns the number of its episodes.

    Raises:
        RequestError: Minari is not installed or has no such dataset, or the folder is not empty.
        SpaceError: a space has no array form.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RequestError(f"the folder to record into, {folder}, exists and is not empty", help="name another one")
    source = MinariSource(dataset_id)
    writer = TrajectoryWriter(folder, source.spaces, policy=f"Minari dataset {dataset_id}")
    for number in range(len(source)):
        episode = source[number]
        writer.write(episode_name(number, episode.info.seed), episode)
    return len(source)


def _write(minari: Any, dataset: TrajectoryDataset, dataset_id: str, policy: str) -> int:
    buffers = _buffers(dataset)
    first = next(buffers, None)
    if first is None:
        raise RequestError("no step was recorded that Minari could hold")
    observation, action = _only_spaces(dataset)
    made = minari.create_dataset_from_buffers(
        dataset_id,
        [first],
        observation_space=_unnamed(observation, PLAIN[0]),
        action_space=_unnamed(action, PLAIN[1]),
        algorithm_name=policy or None,
        data_format="hdf5",
        jpeg_encoding=False,
    )
    while chunk := list(islice(buffers, _CHUNK)):
        made.update_dataset_from_buffer(chunk)
    return int(made.total_steps)


def _buffers(dataset: TrajectoryDataset) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    observation, action = _only_spaces(dataset)
    for episode in dataset:
        steps = flat_transitions(episode)
        if len(steps):
            seen = {
                name: np.concatenate([array, steps.next_observation[name][-1:]])
                for name, array in steps.observation.items()
            }
            yield EpisodeBuffer(
                seed=episode.info.seed,
                observations=_bare(seen, observation, PLAIN[0]),
                actions=_bare(steps.action, action, PLAIN[1]),
                rewards=list(episode.reward[: len(steps)]),
                terminations=list(steps.terminated),
                truncations=list(steps.truncated),
            )


def _only_spaces(dataset: TrajectoryDataset) -> tuple[spaces.Dict, spaces.Dict]:
    """Observations and actions of the only policy key, which a game of one agent calls by its name."""
    (key,) = dataset.spaces.policy_keys
    return dataset.spaces.observation[key], dataset.spaces.action[key]


def _unnamed(space: spaces.Dict, name: str) -> spaces.Space[Any]:
    return space[name] if list(space.spaces) == [name] else space


def _bare(arrays: ArrayDict, space: spaces.Dict, name: str) -> Any:
    return arrays[name] if list(space.spaces) == [name] else arrays
