"""Recording while playing: the wrapper "trajectory-recording" around each environment that episodes are played in.

The wrapper is found by its name, since what it records, and how, is a plugin's matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from maze_kernel.catalog import build
from maze_kernel.config.load import select
from maze_kernel.errors import ComponentError, RequestError
from maze_runtime.env.simulation import Recording, RecordsEpisodes
from maze_runtime.run.directory import encode_json_lenient

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.env import StructuredEnv
    from maze_kernel.loader import Kernel
    from maze_kernel.selection import Selection


@attrs.frozen
class Recorder:
    """What records the episodes of an environment, and into which recording; travels to worker processes."""

    wrapper: Selection
    recording: Recording

    def __call__(self, env: StructuredEnv) -> StructuredEnv:
        """The environment inside the wrapper.

        Raises:
            ComponentError: the wrapper cannot be told where to record.
        """
        recorded = build(self.wrapper, env)
        if not isinstance(recorded, RecordsEpisodes):
            raise ComponentError(
                f"wrapper {self.wrapper.use!r} does not record where it is told to",
                phase="recording episodes",
                received=type(recorded).__name__,
                expected="an env wrapper with the method record_into",
                owner=self.wrapper.owner,
            )
        recorded.record_into(self.recording)
        return recorded  # type: ignore[return-value]


@attrs.frozen
class RecordedEnvFactory:
    """Builds environments whose episodes are recorded."""

    make_env: Callable[[], StructuredEnv]
    recorder: Recorder

    def __call__(self) -> StructuredEnv:
        return self.recorder(self.make_env())


def make_recorder(
    loaded: LoadedExperiment, kernel: Kernel, folder: Path, policy: str, seeds: Sequence[int]
) -> Recorder:
    """What records these episodes of an experiment into a folder that is new or empty.

    Args:
        policy: who plays, as text.
        seeds: of the episodes, in the order of their files.

    Raises:
        RequestError: the folder is not empty.
        PluginError: the wrapper is not installed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"the folder to record into, {folder}, exists and is not empty", help="name another one")
    wrapper = select_installed(kernel, "wrapper", {"use": "trajectory-recording"})
    experiment = json.loads(encode_json_lenient(loaded.resolved))
    numbers = {seed: number for number, seed in enumerate(seeds)}
    return Recorder(wrapper, Recording(folder=folder, experiment=experiment, policy=policy, numbers=numbers))


def select_installed(kernel: Kernel, kind: str, table: dict[str, str]) -> Selection:
    """A component that no experiment names.

    Raises:
        PluginError: it is not installed; names what brings it.
    """
    kernel.catalog.find(kind, table["use"])
    return select(kernel, kind, table)
