"""Categories as vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_wrappers.one_key import OneKey
from maze_wrappers.options import OneHotObservationOptions

if TYPE_CHECKING:
    from torch import Tensor


class OneHotObservation(OneKey):
    """Category k of n becomes a float32 vector with a 1 at k; the vectors of a MultiDiscrete stand side by side."""

    tag = "one_hot"

    def __init__(self, options: OneHotObservationOptions) -> None:
        super().__init__(options)
        self._is_single = True
        self._edges = np.zeros(0, np.int64)
        self._start = np.zeros(1, np.int64)

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """(n,), or (sum of nvec,)."""
        if isinstance(space, spaces.Discrete):
            sizes, start = np.array([space.n]), np.array([space.start])
        elif isinstance(space, spaces.MultiDiscrete):
            sizes, start = np.asarray(space.nvec).ravel(), np.asarray(space.start).ravel()
        else:
            raise SpaceError(
                f"only categories become one-hot vectors, and the observation {self.inner_name!r} holds none",
                received=str(space),
                expected="Discrete or MultiDiscrete",
                owner="maze-wrappers: one-hot",
                help="leave it as it is: networks read a Box",
            )
        self._is_single = isinstance(space, spaces.Discrete)
        self._inner_dims = 0 if self._is_single else len(space.shape or ())
        self._start, self._edges = start, np.concatenate([[0], np.cumsum(sizes)])
        return spaces.Box(0.0, 1.0, (int(self._edges[-1]),), np.float32)

    def convert(self, value: np.ndarray) -> np.ndarray:
        """(…) or (…, K) integers to (…, n)."""
        lead = value.shape[: value.ndim - self._inner_dims]
        index = value.reshape(*lead, len(self._start)).astype(np.int64) - self._start + self._edges[:-1]
        result = np.zeros((*lead, int(self._edges[-1])), np.float32)
        np.put_along_axis(result, index, 1.0, axis=-1)
        return result

    def convert_tensor(self, value: Tensor) -> Tensor:
        """The same in torch."""
        import torch

        index = value.to(torch.int64).reshape(*value.shape[: value.ndim - self._inner_dims], len(self._start))
        sizes = (self._edges[1:] - self._edges[:-1]).tolist()
        parts = [torch.nn.functional.one_hot(index[..., i] - int(self._start[i]), size) for i, size in enumerate(sizes)]
        return torch.cat(parts, dim=-1).to(torch.float32)
