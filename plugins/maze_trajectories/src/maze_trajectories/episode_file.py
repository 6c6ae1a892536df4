"""The file of one episode: a safetensors file whose header holds the identifiers.

    __metadata__            format, info (JSON of `EpisodeInfo`), policy_keys (JSON), final_key, final_agent
    step/<field>            (T, …) one row a decision: key_index, agent_id, reward, terminated, …
    observation/<k>/<name>  (T_k, …) by index into policy_keys; action/<k>/<name> likewise
    final/<name>            (…) the last observation
    objects, object/<n>     of Maze environments, see `recorded_objects`

Reading one never runs code. Nothing but arrays and JSON is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import TrajectoryError
from maze_runtime.datasets.contract import Episode, EpisodeInfo
from maze_runtime.run.stored_data import from_data, to_data
from maze_trajectories.builder import STEP_FIELDS

FORMAT = 1
"""Version of the layout of a recording, written to every file."""

SUFFIX = ".safetensors"


def encode_episode(episode: Episode, objects: Mapping[str, np.ndarray] | None = None) -> bytes:
    """The bytes of an episode's file.

    Args:
        episode: what was recorded.
        objects: further arrays under names of their own.
    """
    tensors = {f"step/{name}": getattr(episode, name) for name in STEP_FIELDS}
    if episode.actor_reward is not None:
        tensors["step/actor_reward"] = episode.actor_reward
    if episode.left_after is not None:
        tensors["step/left_after"] = episode.left_after
    for group, by_key in (("observation", episode.observation), ("action", episode.action)):
        for index, key in enumerate(episode.policy_keys):
            tensors |= {f"{group}/{index}/{name}": array for name, array in by_key.get(key, {}).items()}
    tensors |= {f"final/{name}": array for name, array in episode.final_observation.items()}
    tensors |= objects or {}
    header = {
        "format": str(FORMAT),
        "info": json.dumps(to_data(episode.info), allow_nan=True),
        "policy_keys": json.dumps(episode.policy_keys),
        "final_key": json.dumps(episode.final_key),
        "final_agent": json.dumps(episode.final_agent),
    }
    return safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in tensors.items()}, header)


def read_info(path: Path) -> EpisodeInfo:
    """Identifiers and sums of an episode, without its arrays.

    Raises:
        TrajectoryError: the file is damaged or of another format.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return _info(_header(file, path))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise _damaged(path, error) from error


def content_of(path: Path) -> bytes:
    """A digest of all arrays of an episode; not of its identifiers."""
    with path.open("rb") as file:
        file.seek(int.from_bytes(file.read(8), "little"), os.SEEK_CUR)  # the header of a safetensors file
        return hashlib.file_digest(file, "sha256").digest()


def read_episode(path: Path) -> Episode:
    """A whole episode.

    Raises:
        TrajectoryError: the file is damaged or of another format.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = _header(file, path)
            tensors = {name: file.get_tensor(name) for name in file.keys() if not name.startswith("object")}  # noqa: SIM118
        keys = tuple(json.loads(header["policy_keys"]))
        observation, final_key = _by_key(tensors, "observation", keys), json.loads(header["final_key"])
        return Episode(
            info=_info(header),
            policy_keys=keys,
            **{name: tensors[f"step/{name}"] for name in STEP_FIELDS},
            actor_reward=tensors.get("step/actor_reward"),
            observation=observation,
            action=_by_key(tensors, "action", keys),
            final_key=final_key,
            final_observation=_shaped(_below(tensors, "final/"), observation.get(final_key, {})),
            final_agent=json.loads(header.get("final_agent", "null")),
            left_after=tensors.get("step/left_after"),
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise _damaged(path, error) from error


def _header(file: Any, path: Path) -> dict[str, str]:
    header: dict[str, str] = file.metadata() or {}
    check_format(header.get("format"), path)
    return header


def check_format(found: Any, path: Path) -> None:
    """Refuse what another version wrote.

    Raises:
        TrajectoryError: with the way out.
    """
    if str(found) != str(FORMAT):
        raise TrajectoryError(
            f"{path} is no recording this Maze can read",
            received=f"format {found}",
            expected=f"format {FORMAT}",
            help="record it again, or read it with the Maze version that wrote it",
        )


def _info(header: Mapping[str, str]) -> EpisodeInfo:
    return from_data(json.loads(header["info"]), EpisodeInfo)


def _by_key(tensors: ArrayDict, group: str, keys: tuple[PolicyKey, ...]) -> dict[PolicyKey, ArrayDict]:
    found = {key: _below(tensors, f"{group}/{index}/") for index, key in enumerate(keys)}
    return {key: arrays for key, arrays in found.items() if arrays}


def _below(tensors: ArrayDict, prefix: str) -> ArrayDict:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def _shaped(final: ArrayDict, rows: ArrayDict) -> ArrayDict:
    """Numbers without a dimension, which recordings up to November 2026 hold with one, in the shape of their rows."""
    return {name: array.reshape(rows[name].shape[1:]) if name in rows else array for name, array in final.items()}


def _damaged(path: Path, error: Exception) -> TrajectoryError:
    return TrajectoryError(f"the recorded episode {path} is damaged: {error!r:.300}")
