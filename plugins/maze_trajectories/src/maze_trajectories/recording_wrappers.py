"""The wrappers that record episodes at their place in the list: whole ones, or their actions alone."""

from __future__ import annotations

from pathlib import Path

from maze_kernel.contracts.env import StructuredEnv
from maze_runtime.env.simulation import Recording
from maze_trajectories.options import ActionRecordingOptions, TrajectoryRecordingOptions
from maze_trajectories.recording import RecordingEnv


class TrajectoryRecording(RecordingEnv):
    """Records what is seen and done: arrays, and of Maze environments states and events."""

    def __init__(self, env: StructuredEnv, options: TrajectoryRecordingOptions) -> None:
        super().__init__(env, Recording(folder=Path(options.folder)), every_episodes=options.every_episodes)
        self.options = options

    def write_below(self, folder: Path | None) -> None:
        """See `WritesFiles`."""
        self.record_below(folder, self.options.folder)


class ActionRecording(RecordingEnv):
    """Records actions, rewards and ends, and no observation, state or event: small, and enough for a replay."""

    def __init__(self, env: StructuredEnv, options: ActionRecordingOptions) -> None:
        recording = Recording(folder=Path(options.folder))
        super().__init__(env, recording, actions_only=True, every_episodes=options.every_episodes)
        self.options = options

    def write_below(self, folder: Path | None) -> None:
        """See `WritesFiles`."""
        self.record_below(folder, self.options.folder)
