"""Arrays with their dimensions in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_wrappers.box_spaces import rearranged, require_box
from maze_wrappers.one_key import OneKey
from maze_wrappers.options import TransposeOptions

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: transpose"


class Transpose(OneKey):
    """Dimension i of the outcome is dimension `axes[i]` of the observation; batch dimensions stay in front."""

    tag = "transpose"

    def __init__(self, options: TransposeOptions) -> None:
        super().__init__(options)
        self._axes = options.axes

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """The same bounds in the new order."""
        box = require_box(space, self.inner_name, OWNER)
        if sorted(self._axes) != list(range(len(box.shape))):
            raise SpaceError(
                "the axes are no order of the observation's dimensions",
                received=f"axes {list(self._axes)} for shape {box.shape}",
                expected=f"each of 0 … {len(box.shape) - 1} once",
                option="axes",
                owner=OWNER,
            )
        return rearranged(box, self.convert)

    def convert(self, value: np.ndarray) -> np.ndarray:
        """(…, *shape) with the last dimensions in the new order."""
        lead = value.ndim - len(self._axes)
        return value.transpose(*range(lead), *(lead + axis for axis in self._axes))

    def convert_tensor(self, value: Tensor) -> Tensor:
        """The same in torch."""
        lead = value.ndim - len(self._axes)
        return value.permute(*range(lead), *(lead + axis for axis in self._axes))
