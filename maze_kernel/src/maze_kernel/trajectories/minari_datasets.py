"""Recordings of flat environments to Minari datasets and back, on this machine: nothing is fetched or sent.

Minari knows neither policy keys nor MazeStates, so only observations, actions, rewards, ends and seeds travel.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.env.batching import layout
from maze_kernel.env.contract import FLAT_KEY, StructuredSpaces, flat_spaces
from maze_kernel.env.tick import ArrayDict
from maze_kernel.errors import RequestError
from maze_kernel.trajectories.dataset import TrajectoryDataset
from maze_kernel.trajectories.episode import Episode, EpisodeInfo, flat_transitions
from maze_kernel.trajectories.writer import TrajectoryWriter, episode_name

_CHUNK = 100
"""Episodes in memory at a time."""

_PLAIN = ("observation", "action")
"""The only name in a Dict space that stands for what has no name in Minari."""


def export_to_minari(dataset: TrajectoryDataset, dataset_id: str, *, policy: str = "") -> int:
    """Make a Minari dataset of a recording; returns the number of its steps.

    A step whose next observation was not recorded, the last one before a failure, is left out. An episode that was cut
    off ends as truncated.

    Args:
        dataset: of a flat environment.
        dataset_id: `namespace/name-v0`; the dataset must not exist yet.
        policy: who played, as text.

    Raises:
        RequestError: the environment is structured, Minari is not installed, or the id is malformed or taken.
    """
    minari = _minari()
    if not dataset.spaces.is_flat:
        raise RequestError(
            "a Minari dataset cannot hold a structured environment",
            received=f"policy keys {', '.join(map(repr, dataset.spaces.policy_keys))}",
            help="keep the recording as it is; maze-bc reads it",
        )
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)  # before anything is made: Minari itself leaves a folder behind
        if dataset_id in minari.list_local_datasets():
            raise RequestError(
                f"there is a Minari dataset {dataset_id!r} already", help="choose another name or version"
            )
        return _write(minari, dataset, dataset_id, policy)
    except ValueError as error:
        raise RequestError(f"Minari refuses the dataset: {error}", expected="an id like maze/cartpole-v0") from error


def import_from_minari(dataset_id: str, folder: Path) -> int:
    """Make a recording of a Minari dataset of this machine; returns the number of its episodes.

    Raises:
        RequestError: Minari is not installed or has no such dataset, or the folder is not empty.
        SpaceError: a space has no array form.
    """
    minari = _minari()
    if folder.exists() and any(folder.iterdir()):
        raise RequestError(f"the folder to record into, {folder}, exists and is not empty", help="name another one")
    try:
        source = minari.load_dataset(dataset_id)
    except (FileNotFoundError, ValueError) as error:
        raise RequestError(
            f"there is no Minari dataset {dataset_id!r} on this machine: {error}",
            nearest=tuple(sorted(minari.list_local_datasets())[:3]),
            help=f"fetch it with: minari download {dataset_id}",
        ) from error
    structured = flat_spaces(_named(source.observation_space, _PLAIN[0]), _named(source.action_space, _PLAIN[1]))
    for space in (*structured.observation.values(), *structured.action.values()):
        layout(space)
    writer = TrajectoryWriter(folder, structured, policy=f"Minari dataset {dataset_id}")
    indices = [int(index) for index in source.episode_indices]
    metadata = source.storage.get_episode_metadata(indices)
    for number, (about, data) in enumerate(zip(metadata, source.iterate_episodes(indices), strict=True)):
        episode = _episode(data, structured, about.get("seed"), dataset_id)
        writer.write(episode_name(number, episode.info.seed), episode)
    return len(indices)


def _write(minari: Any, dataset: TrajectoryDataset, dataset_id: str, policy: str) -> int:
    buffers = _buffers(dataset)
    first = next(buffers, None)
    if first is None:
        raise RequestError("no step was recorded that Minari could hold")
    made = minari.create_dataset_from_buffers(
        dataset_id,
        [first],
        observation_space=_unnamed(dataset.spaces.observation[FLAT_KEY], _PLAIN[0]),
        action_space=_unnamed(dataset.spaces.action[FLAT_KEY], _PLAIN[1]),
        algorithm_name=policy or None,
        data_format="hdf5",
        jpeg_encoding=False,
    )
    while chunk := list(islice(buffers, _CHUNK)):
        made.update_dataset_from_buffer(chunk)
    return int(made.total_steps)


def _buffers(dataset: TrajectoryDataset) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    observation, action = (by_key[FLAT_KEY] for by_key in (dataset.spaces.observation, dataset.spaces.action))
    for episode in dataset:
        steps = flat_transitions(episode)
        if len(steps):
            seen = {
                name: np.concatenate([array, steps.next_observation[name][-1:]])
                for name, array in steps.observation.items()
            }
            yield EpisodeBuffer(
                seed=episode.info.seed,
                observations=_bare(seen, observation, _PLAIN[0]),
                actions=_bare(steps.action, action, _PLAIN[1]),
                rewards=list(episode.reward[: len(steps)]),
                terminations=list(steps.terminated),
                truncations=list(steps.truncated),
            )


def _episode(data: Any, structured: StructuredSpaces, seed: int | None, dataset_id: str) -> Episode:
    n = len(data.rewards)
    seen = _arrays(data.observations, structured.observation[FLAT_KEY], _PLAIN[0])
    terminated, truncated = (np.asarray(flags, np.bool_) for flags in (data.terminations, data.truncations))
    reward = np.asarray(data.rewards, np.float64)
    return Episode(
        info=EpisodeInfo(
            episode_id=str(uuid.uuid4()),
            seed=seed,
            n_decisions=n,
            n_env_steps=n,
            total_reward=float(reward.sum()),
            terminated=bool(terminated[-1:].any()),
            truncated=bool(truncated[-1:].any()),
            policy=f"Minari dataset {dataset_id}",
        ),
        policy_keys=(FLAT_KEY,),
        key_index=np.zeros(n, np.int64),
        agent_id=np.zeros(n, np.int64),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        flat_step_end=np.ones(n, np.bool_),
        actor_done=np.zeros(n, np.bool_),
        actor_reward=None,
        observation={FLAT_KEY: {name: array[:n] for name, array in seen.items()}},
        action={FLAT_KEY: _arrays(data.actions, structured.action[FLAT_KEY], _PLAIN[1])},
        final_key=FLAT_KEY,
        final_observation={name: array[n] for name, array in seen.items()},
    )


def _unnamed(space: spaces.Dict, name: str) -> spaces.Space[Any]:
    return space[name] if list(space.spaces) == [name] else space


def _named(space: spaces.Space[Any], name: str) -> spaces.Dict:
    return space if isinstance(space, spaces.Dict) else spaces.Dict({name: space})


def _bare(arrays: ArrayDict, space: spaces.Dict, name: str) -> Any:
    return arrays[name] if list(space.spaces) == [name] else arrays


def _arrays(values: Any, space: spaces.Dict, name: str) -> ArrayDict:
    named: Mapping[str, Any] = values if isinstance(values, Mapping) else {name: values}
    return {key: np.asarray(named[key], leaf.dtype) for key, leaf in layout(space).items()}


def _minari() -> Any:
    try:
        import h5py  # noqa: F401
        import minari
    except ImportError as error:
        raise RequestError(
            "Minari datasets need the package minari, which is not installed", help="pip install 'maze-kernel[minari]'"
        ) from error
    return minari
