"""Options of wrappers that record episodes, of datasets that hold recorded ones, and of the policy "replay"."""

from __future__ import annotations

import attrs

from maze_kernel.config.paths import inside_run_dir
from maze_kernel.validators import above


@attrs.frozen(kw_only=True)
class TrajectoryRecordingOptions:
    """Options of `trajectory-recording`."""

    folder: str = attrs.field(default="trajectories/recording", validator=inside_run_dir)
    """Where the recording goes, in the run directory. All environments and processes of a run share it."""
    every_episodes: int = attrs.field(default=1, validator=above(0))
    """Records the first episode of every environment and then each one after so many."""


@attrs.frozen(kw_only=True)
class ActionRecordingOptions:
    """Options of `action-recording`."""

    folder: str = attrs.field(default="actions", validator=inside_run_dir)
    """Where the recording goes, in the run directory. All environments and processes of a run share it."""
    every_episodes: int = attrs.field(default=1, validator=above(0))
    """Records the first episode of every environment and then each one after so many."""


@attrs.frozen(kw_only=True)
class ReplayOptions:
    """What is replayed."""

    path: str
    """A recording, a run directory with recordings, or the file of one episode."""


@attrs.frozen(kw_only=True)
class TrajectoriesOptions:
    """Episodes recorded with `maze rollout --record`."""

    path: str
    """A recording, a run directory (all its recordings), a folder of recordings, or the file of one episode; from the working directory."""  # noqa: E501


@attrs.frozen(kw_only=True)
class MinariOptions:
    """A Minari dataset; needs `pip install 'maze-trajectories[minari]'`."""

    id: str
    """Name of a dataset in the local Minari folder, such as "D4RL/door/human-v2", or the folder of one. Nothing is downloaded."""  # noqa: E501

    def check_ready(self) -> None:
        """Refuse to be used without Minari.

        Raises:
            RequestError: names the package that is missing.
        """
        from maze_trajectories.minari_source import require_minari

        require_minari()
