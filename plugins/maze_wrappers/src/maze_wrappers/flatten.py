"""Arrays with fewer dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_wrappers.box_spaces import rearranged
from maze_wrappers.one_key import OneKey
from maze_wrappers.options import FlattenObservationOptions

if TYPE_CHECKING:
    from torch import Tensor


class FlattenObservation(OneKey):
    """Joins the last `n_dims` dimensions into one, in C order."""

    tag = "flatten"

    def __init__(self, options: FlattenObservationOptions) -> None:
        super().__init__(options)
        self._wanted = options.n_dims
        self._n_dims = 0

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """The same bounds in the new shape; bits of a MultiBinary become a Box of 0 and 1."""
        if isinstance(space, spaces.MultiBinary):
            space = spaces.Box(0, 1, space.shape, np.int8)
        if not isinstance(space, spaces.Box) or len(space.shape) < max(self._wanted, 1):
            raise SpaceError(
                f"the observation {self.inner_name!r} cannot be flattened",
                received=str(space),
                expected=f"a Box or MultiBinary with at least {max(self._wanted, 1)} dimensions",
                owner="maze-wrappers: flatten",
                help="one-hot makes vectors of categories; n_dims counts the last dimensions",
            )
        self._n_dims = self._wanted or len(space.shape)
        return rearranged(space, self.convert)

    def convert(self, value: np.ndarray) -> np.ndarray:
        """(…, a, b, c) to (…, a·b·c)."""
        return value.reshape(*value.shape[: value.ndim - self._n_dims], -1)

    def convert_tensor(self, value: Tensor) -> Tensor:
        """The same in torch."""
        return value.flatten(value.ndim - self._n_dims)
