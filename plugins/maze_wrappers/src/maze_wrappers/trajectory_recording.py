"""Episodes as data, recorded while training or rolling out."""

from __future__ import annotations

from pathlib import Path

from maze_kernel.env.contract import StructuredEnv
from maze_kernel.trajectories.recording import RecordingEnv
from maze_kernel.trajectories.writer import TrajectoryWriter
from maze_wrappers.options import TrajectoryRecordingOptions


class TrajectoryRecording(RecordingEnv):
    """Records what is seen and done at its place in the list: arrays, and of Maze environments states and events."""

    def __init__(self, env: StructuredEnv, options: TrajectoryRecordingOptions) -> None:
        writer = TrajectoryWriter(Path(options.folder), env.structured_spaces)
        super().__init__(env, writer, every_episodes=options.every_episodes)
        self.options = options

    def write_below(self, folder: Path | None) -> None:
        """See `WritesFiles`."""
        self.record_below(folder, self.options.folder)
