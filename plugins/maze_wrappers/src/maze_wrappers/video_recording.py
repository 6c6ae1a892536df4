"""Films of episodes, written while training or rolling out."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.config import path_inside
from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_kernel.errors import EnvError
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.rollout.video import write_video
from maze_runtime.rollout.window import FRAMES_PER_SECOND
from maze_wrappers.options import VideoRecordingOptions


class VideoRecording(EnvWrapper):
    """Draws every `every_episodes`-th episode of this environment and writes it as a film when it ends.

    Raises:
        EnvError: from `reset`, where the environment draws nothing.
        RequestError: when a film is written and imageio is not installed.
    """

    def __init__(self, env: StructuredEnv, options: VideoRecordingOptions) -> None:
        super().__init__(env)
        self.options = options
        self._token = secrets.token_hex(4)  # films of other environments and processes are called otherwise
        self._episode = -1
        self._seed: int | None = None
        self._frames: list[np.ndarray] | None = None
        self._has_steps = False  # batches reset at once where an episode ends, be it the last one
        self._folder: Path | None = Path(options.folder)

    def write_below(self, folder: Path | None) -> None:
        """See `WritesFiles`."""
        self._folder = None if folder is None else path_inside(folder, self.options.folder)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        self._write()
        result = self.env.reset(seed=seed, options=options)
        self._episode += 1
        self._seed, self._has_steps = seed, False
        if self._folder is not None and self._episode % self.options.every_episodes == 0:
            self._frames = []
            self._draw()
        return result

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        result = self.env.step(action)
        self._has_steps = True
        self._draw()
        if result[2] or result[3]:
            self._write()
        return result

    def close(self) -> None:
        """Write the unfinished film and close the environment."""
        self._write()
        super().close()

    def clone_from(self, other: VideoRecording) -> None:
        """Go on from where another one is; the film begins here."""
        super().clone_from(other)
        self._frames = None

    def _draw(self) -> None:
        if self._frames is None or len(self._frames) >= self.options.max_frames:
            return
        frame = self.env.render()
        if frame is None:
            raise EnvError(
                "the environment draws nothing",
                owner="maze-wrappers: video-recording",
                help='set render_mode = "rgb_array" in [env]',
            )
        self._frames.append(np.array(frame))

    def _write(self) -> None:
        frames, self._frames = self._frames, None
        if frames and self._has_steps and self._folder is not None:
            seed = "" if self._seed is None else f"-seed-{self._seed}"
            name = f"episode-{self._episode + 1:06d}{seed}-{self._token}"
            write_video(self._folder / name, frames, FRAMES_PER_SECOND)
