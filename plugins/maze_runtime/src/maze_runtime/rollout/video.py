"""Frames of an episode: collected while it is played, written as a film afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict, Tick, VectorEnv
from maze_kernel.errors import EnvError, RequestError

FRAMES_PER_SECOND = 30


class FilmedVectorEnv:
    """Renders its first environment after every reset and step.

    Args:
        keep: collect the frames; False: only draw them.
    """

    frames_per_second = FRAMES_PER_SECOND

    def __init__(self, inner: VectorEnv, *, keep: bool = True) -> None:
        self.inner = inner
        self.n_envs = inner.n_envs
        self.structured_spaces = inner.structured_spaces
        self.frames: list[np.ndarray] = []
        self._keep = keep

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """See `VectorEnv.reset`."""
        tick = self.inner.reset(seeds)
        self._film()
        return tick

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """See `VectorEnv.step`."""
        tick = self.inner.step(actions)
        self._film()
        return tick

    def render(self) -> Any:
        """See `VectorEnv.render`."""
        return self.inner.render()

    def close(self) -> None:
        """Close the environments."""
        self.inner.close()

    def _film(self) -> None:
        frame = self.inner.render()
        if not self._keep:
            return
        if isinstance(frame, (list, tuple)):
            frame = frame[0] if frame else None
        if frame is None:
            raise EnvError("the environment rendered no frame", help='it must be built with render_mode = "rgb_array"')
        frame = np.asarray(frame)
        self.frames.append((frame[0] if frame.ndim == 4 else frame).copy())


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
