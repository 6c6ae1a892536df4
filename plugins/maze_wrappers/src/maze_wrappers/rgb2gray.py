"""Colour images as grey ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_wrappers.box_spaces import axis_of, require_box
from maze_wrappers.one_key import OneKey
from maze_wrappers.options import Rgb2GrayOptions

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: rgb2gray"
THOUSANDTHS = np.array([299.0, 587.0, 114.0])
"""Share of red, green and blue in the brightness, ITU-R BT.601."""


class Rgb2Gray(OneKey):
    """y = 0.299 R + 0.587 G + 0.114 B; the colour dimension is gone, the dtype stays."""

    tag = "rgb2gray"

    def __init__(self, options: Rgb2GrayOptions) -> None:
        super().__init__(options)
        self._dim = options.rgb_dim
        self._dtype: np.dtype[Any] = np.dtype(np.float32)
        self._weights = THOUSANDTHS.astype(np.float32)

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """The brightness of the bounds, which brightness keeps in order."""
        box = require_box(space, self.inner_name, OWNER, n_dims=3)
        self._dim = axis_of(self._dim, len(box.shape), "rgb_dim", OWNER)
        if box.shape[self._dim] != 3:
            raise SpaceError(
                f"the observation {self.inner_name!r} has no three colours in that dimension",
                received=f"shape {box.shape}, rgb_dim {self._dim}",
                expected="length 3",
                option="rgb_dim",
                owner=OWNER,
            )
        self._dtype = np.dtype(box.dtype)
        # Sums over integers are exact in float64, so that NumPy and torch round halves alike.
        self._weights = THOUSANDTHS if self._dtype.kind in "iu" else THOUSANDTHS.astype(np.float32)
        low, high = self.convert(box.low), self.convert(box.high)
        return spaces.Box(low, high, low.shape, self._dtype.type)

    def convert(self, value: np.ndarray) -> np.ndarray:
        """(…, 3, …) to (…, …)."""
        gray = np.tensordot(value.astype(self._weights.dtype), self._weights, axes=(self._dim, 0)) / 1000.0
        if self._dtype.kind in "iu":
            gray = np.rint(gray)
        return gray.astype(self._dtype)

    def convert_tensor(self, value: Tensor) -> Tensor:
        """The same in torch."""
        import torch

        weights = torch.from_numpy(self._weights)
        gray: Tensor = torch.tensordot(value.to(weights.dtype), weights, dims=([self._dim], [0])) / 1000.0
        gray = gray.round() if self._dtype.kind in "iu" else gray
        return gray.to(value.dtype)
