"""Frames of an episode: collected or shown while it is played, written as a film afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.contracts.env import Action, Observation, StructuredEnv
from maze_kernel.errors import EnvError, RequestError
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.rollout.window import Window


class FilmedEnv(EnvWrapper):
    """Draws its environment after every reset and step, the last one of an episode included.

    Args:
        keep: collect the frames.
        show: put them on the screen; an environment that opens a window itself gives none.
    """

    def __init__(self, env: StructuredEnv, *, keep: bool, show: bool) -> None:
        super().__init__(env)
        self._keep = keep
        self._show = show
        self._window: Window | None = None
        self._episodes: list[list[np.ndarray]] = []
        self._n_steps: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        result = self.env.reset(seed=seed, options=options)
        self._episodes.append([])
        self._n_steps.append(0)
        self._draw()
        return result

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        result = self.env.step(action)
        self._n_steps[-1] += 1
        self._draw()
        return result

    def take(self) -> list[np.ndarray]:
        """The frames of the first episode since the last call that has steps; those only begun are dropped."""
        played = [frames for frames, n in zip(self._episodes, self._n_steps, strict=True) if n]
        self._episodes, self._n_steps = [], []
        return played[0] if played else []

    def close(self) -> None:
        """Close window and environment."""
        if self._window is not None:
            self._window.close()
        super().close()

    def _draw(self) -> None:
        frame: Any = self.env.render()
        if isinstance(frame, (list, tuple)):
            frame = frame[0] if frame else None
        if frame is not None:
            frame = np.asarray(frame)
            frame = frame[0] if frame.ndim == 4 else frame
        if self._show and frame is not None:
            self._window = self._window or Window()
            self._window.show(frame)
        if not self._keep:
            return
        if frame is None:
            raise EnvError("the environment rendered no frame", help='it must be built with render_mode = "rgb_array"')
        self._episodes[-1].append(frame.copy())


def write_video(path: Path, frames: Sequence[np.ndarray], frames_per_second: float) -> Path:
    """Write (H, W, 3) frames as `path` with the ending .mp4, or .gif where no encoder for mp4 is installed.

    Raises:
        RequestError: imageio is not installed.
    """
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        raise RequestError(
            "writing videos needs imageio, which is not installed", help="pip install 'maze-runtime[video]'"
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    even: list[Any] = [frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2] for frame in frames]
    try:
        target = path.with_name(f"{path.name}.mp4")
        imageio.mimwrite(target, even, fps=frames_per_second, macro_block_size=1)
    except (ImportError, ValueError):
        target.unlink(missing_ok=True)
        target = path.with_name(f"{path.name}.gif")
        imageio.mimwrite(target, even, duration=1000 / frames_per_second, loop=0)
    return target
