"""A transform: a function on arrays that serves one environment and a whole batch alike."""

from __future__ import annotations

import attrs
import numpy as np
from gymnasium import spaces

from maze_hello.options import ClipOptions
from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform


class Clip(Transform):
    """Limits floating-point observations to [-limit, limit]; others, such as action masks, pass unchanged."""

    def __init__(self, options: ClipOptions) -> None:
        self._limit = options.limit

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces seen from outside: the bounds are limited like the observations."""
        outer = {
            key: spaces.Dict({name: self._clip_space(space) for name, space in observation.items()})
            for key, observation in inner.observation.items()
        }
        return attrs.evolve(inner, observation=outer)

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Observations with any leading batch dimensions, limited."""
        return {name: self._clip(np.asarray(array)) for name, array in observation.items()}

    def _clip(self, array: np.ndarray) -> np.ndarray:
        return np.clip(array, -self._limit, self._limit) if array.dtype.kind == "f" else array

    def _clip_space(self, space: spaces.Space) -> spaces.Space:
        if not isinstance(space, spaces.Box) or space.low.dtype.kind != "f":
            return space
        return spaces.Box(self._clip(space.low), self._clip(space.high), dtype=space.low.dtype)
