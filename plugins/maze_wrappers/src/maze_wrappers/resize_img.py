"""Images in another size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_wrappers.box_spaces import require_box
from maze_wrappers.one_key import OneKey
from maze_wrappers.options import ResizeImgOptions

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: resize-img"


class ResizeImg(OneKey):
    """Linear interpolation, low-pass filtered where the image shrinks (a triangle as wide as the scale, as in Pillow).

    Method "area" weighs pixels by how much of the new one they cover, as OpenCV's INTER_AREA where the image shrinks.
    Two matrix products an image, computed for the whole batch at once.
    """

    tag = "resize_img"

    def __init__(self, options: ResizeImgOptions) -> None:
        super().__init__(options)
        self._target = options.target_size
        self._weights = interpolation if options.method == "linear" else coverage
        self._channels_first = options.channels_first
        self._rows = self._columns = np.zeros((0, 0), np.float32)
        self._box = spaces.Box(0, 1, (), np.float32)

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """The same range in the new size."""
        box = require_box(space, self.inner_name, OWNER, n_dims=2)
        if len(box.shape) > 3:
            raise SpaceError(
                f"the observation {self.inner_name!r} is no image",
                received=f"shape {box.shape}",
                expected="(H, W), (H, W, C), or (C, H, W) with channels_first",
                owner=OWNER,
            )
        self._has_channels = len(box.shape) == 3
        height, width = box.shape[-2:] if self._channels_first or not self._has_channels else box.shape[:2]
        self._rows, self._columns = (
            self._weights(size, target) for size, target in zip((height, width), self._target, strict=True)
        )
        self._low, self._high, self._dtype = box.low.min(), box.high.max(), np.dtype(box.dtype)
        if self._dtype.kind in "iu":
            self._rows, self._columns = exact(self._rows), exact(self._columns)
            # Weighted sums of bytes are multiples of 2⁻¹² below 256: 20 bits, of which float32 holds 24.
            if self._dtype == np.uint8:
                self._rows = self._rows.astype(np.float32)
        shape = self.convert(box.low).shape
        return spaces.Box(self._low, self._high, shape, self._dtype.type)

    def convert(self, value: np.ndarray) -> np.ndarray:
        """(…, H, W[, C]) or (…, C, H, W) with H and W as wanted."""
        last = self._has_channels and not self._channels_first
        images = np.moveaxis(value, -1, -3) if last else value
        # Y = R X Cᵀ, R and C the weights of rows and columns
        narrow = self._rows @ images.astype(self._rows.dtype)
        resized = narrow.astype(self._columns.dtype, copy=False) @ self._columns.T
        if self._dtype.kind in "iu":
            np.rint(resized, out=resized)
        np.clip(resized, self._low, self._high, out=resized)
        return np.asarray(np.moveaxis(resized, -3, -1) if last else resized, self._dtype)

    def convert_tensor(self, value: Tensor) -> Tensor:
        """The same in torch."""
        import torch

        last = self._has_channels and not self._channels_first
        images = value.movedim(-1, -3) if last else value
        rows, columns = torch.from_numpy(self._rows), torch.from_numpy(self._columns)
        resized = (rows @ images.to(rows.dtype)).to(columns.dtype) @ columns.T
        resized = resized.round() if self._dtype.kind in "iu" else resized
        resized = resized.clamp(float(self._low), float(self._high)).to(value.dtype)
        return resized.movedim(-3, -1) if last else resized


def interpolation(size: int, target: int) -> np.ndarray:
    """(target, size) weights; each row sums to 1."""
    scale = size / target
    width = max(scale, 1.0)
    centres = (np.arange(target) + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - centres[:, None]) / width
    weights = np.clip(1.0 - distance, 0.0, None)
    normalised: np.ndarray = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised


def coverage(size: int, target: int) -> np.ndarray:
    """(target, size) weights: the share of each new pixel that lies on each old one; each row sums to 1."""
    scale = size / target
    new, old = np.arange(target)[:, None], np.arange(size)
    overlap = np.minimum((new + 1) * scale, old + 1) - np.maximum(new * scale, old)
    shares: np.ndarray = (np.clip(overlap, 0.0, None) / scale).astype(np.float32)
    return shares


def exact(weights: np.ndarray) -> np.ndarray:
    """The weights in steps of 2⁻¹², float64: sums over integer images are exact, so NumPy and torch round alike."""
    steps = np.rint(weights * 4096.0).astype(np.float64)
    steps[np.arange(len(steps)), weights.argmax(axis=1)] += 4096.0 - steps.sum(axis=1)
    return steps / 4096.0
