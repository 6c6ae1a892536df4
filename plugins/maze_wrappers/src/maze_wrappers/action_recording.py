"""The actions of episodes and their seeds: small, and enough for the policy "replay"."""

from __future__ import annotations

from pathlib import Path

from maze_kernel.env.contract import StructuredEnv
from maze_kernel.trajectories.recording import RecordingEnv
from maze_kernel.trajectories.writer import TrajectoryWriter
from maze_wrappers.options import ActionRecordingOptions


class ActionRecording(RecordingEnv):
    """Records actions, rewards and ends at its place in the list, and no observation, state or event."""

    def __init__(self, env: StructuredEnv, options: ActionRecordingOptions) -> None:
        writer = TrajectoryWriter(Path(options.folder), env.structured_spaces)
        super().__init__(env, writer, actions_only=True, every_episodes=options.every_episodes)
        self.options = options

    def write_below(self, folder: Path | None) -> None:
        """See `WritesFiles`."""
        self.record_below(folder, self.options.folder)
