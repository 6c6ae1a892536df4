"""Writes episodes into a recording: a folder with a description and one file an episode.

    DIR/trajectories.json                      format, who played what, spaces
    DIR/episode-000001-seed-1234.safetensors   see `episode_file`

Each file is complete when it appears under its name, so a recording is readable at any moment and after any crash.
Several processes may write into one recording.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel import __version__
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import TrajectoryError
from maze_runtime.datasets.contract import Episode
from maze_runtime.run.storage import TEMPORARY_PREFIX, Storage, replace_json
from maze_runtime.run.stored_data import from_data, to_data
from maze_trajectories.episode_file import FORMAT, SUFFIX, check_format, encode_episode
from maze_trajectories.stored_spaces import spaces_from_data, spaces_to_data

MANIFEST = "trajectories.json"


@attrs.frozen(kw_only=True)
class RecordingManifest:
    """`trajectories.json`: what all episodes of a recording have in common.

    Attributes:
        spaces: of the recorded observations and actions, as `stored_spaces` writes them.
        experiment: plain data of the experiment that was played, every default filled in; None: unknown.
        policy: who played, as text.
        maze: version of the kernel that wrote it.
    """

    format: int = FORMAT
    created: str = ""
    maze: str = __version__
    policy: str = ""
    experiment: Mapping[str, Any] | None = None
    spaces: Mapping[str, Any]


class TrajectoryWriter:
    """Adds episodes to a recording, which is made with the first of them.

    Args:
        folder: of the recording.
        spaces: of everything that is written.
        experiment: plain data for the description.
        policy: text for the description.

    Raises:
        TrajectoryError: the folder holds a recording of other spaces, or cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        spaces: StructuredSpaces,
        *,
        experiment: Mapping[str, Any] | None = None,
        policy: str = "",
    ) -> None:
        self.folder = Path(folder)
        self._spaces = spaces_to_data(spaces)
        self._experiment = experiment
        self._policy = policy
        self._storage = Storage()
        self._open = False

    def open(self) -> None:
        """Make the recording, or check that it is one of the same spaces."""
        if self._open:
            return
        manifest = self.folder / MANIFEST
        try:
            self._storage.make_directory(self.folder)
            if manifest.exists():
                if read_manifest(self.folder).spaces != self._spaces:
                    raise TrajectoryError(
                        f"{self.folder} already holds episodes of an environment with other spaces",
                        help="record into another folder",
                    )
            else:
                replace_json(self._storage, manifest, to_data(self._manifest()))
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        self._open = True

    def write(self, name: str, episode: Episode, objects: Mapping[str, np.ndarray] | None = None) -> Path:
        """Write one episode under a name without ending; returns its file.

        A name that is taken gets a number behind it: nothing is ever written over.

        Raises:
            TrajectoryError: the disk refused, or the name leads out of the folder.
        """
        if Path(name).name != name or name.startswith("."):
            raise TrajectoryError(f"{name!r} is no name for an episode: it leads out of its folder")
        self.open()
        path = self.folder / f"{name}{SUFFIX}"
        try:
            return _add_unsynced(path, encode_episode(episode, objects))
        except OSError as error:
            raise _cannot_write(path, error) from error

    def _manifest(self) -> RecordingManifest:
        return RecordingManifest(
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            policy=self._policy,
            experiment=self._experiment,
            spaces=self._spaces,
        )


def episode_name(number: int, seed: int | None) -> str:
    """The name of the n-th episode, counted from 0: names sort in the order of the numbers."""
    return f"episode-{number + 1:06d}" + ("" if seed is None else f"-seed-{seed}")


def read_manifest(folder: Path) -> RecordingManifest:
    """What a recording says about itself.

    Raises:
        TrajectoryError: it is damaged or of another format.
    """
    path = Path(folder) / MANIFEST
    try:
        data = json.loads(path.read_bytes())
        check_format(data["format"], path)
        manifest = from_data(data, RecordingManifest)
        spaces_from_data(manifest.spaces)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise TrajectoryError(f"{path} is missing or damaged: {error!r:.300}") from error
    return manifest


def _add_unsynced(path: Path, data: bytes) -> Path:
    """Write a new file that is whole when it appears, whatever happens to this process; returns what it is called.

    It is not flushed to the disk, which would take longer than most episodes: a power cut may cost the last ones.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    try:
        temporary.write_bytes(data)
        target, number = path, 1
        while not _appears_as(temporary, target):
            number += 1
            target = path.with_name(f"{path.name.removesuffix(SUFFIX)}-{number}{SUFFIX}")
        return target
    finally:
        temporary.unlink(missing_ok=True)


def _appears_as(temporary: Path, target: Path) -> bool:
    """Give a whole file its name; False where the name is taken, by another process at this moment too."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if target.exists():
            return False
        os.replace(temporary, target)
    return True


def _cannot_write(path: Path, error: OSError) -> TrajectoryError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some disk space" if is_full else "see to the permissions of its folder"
    return TrajectoryError(f"{path} cannot be written: {error}", help=f"{remedy}, or record elsewhere")
