"""Arrays with one more dimension of length 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_wrappers.box_spaces import axis_of, rearranged, require_box
from maze_wrappers.one_key import OneKey
from maze_wrappers.options import UnsqueezeOptions

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: unsqueeze"


class Unsqueeze(OneKey):
    """The new dimension stands at `dim` of the outcome's shape."""

    tag = "unsqueeze"

    def __init__(self, options: UnsqueezeOptions) -> None:
        super().__init__(options)
        self._dim = options.dim

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """The same bounds, one dimension more."""
        box = require_box(space, self.inner_name, OWNER)
        self._dim = axis_of(self._dim, len(box.shape) + 1, "dim", OWNER)
        return rearranged(box, self.convert)

    def convert(self, value: np.ndarray) -> np.ndarray:
        """(…, a, b) to (…, a, 1, b) and the like."""
        return np.expand_dims(value, self._dim)

    def convert_tensor(self, value: Tensor) -> Tensor:
        """The same in torch."""
        return value.unsqueeze(self._dim)
