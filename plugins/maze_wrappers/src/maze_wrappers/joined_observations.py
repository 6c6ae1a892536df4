"""The keys of one observation as one array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_runtime.env.mask_reading import masks_of

if TYPE_CHECKING:
    from torch import Tensor


class JoinedObservations:
    """Maps the observations of one policy key.

    Args:
        inner: its space.
        action: that of the actions, which says what is a mask.
        name: of the one array.
        masks: "keep" keys that are masks beside it, "join" them with the rest, or "drop" them.

    Attributes:
        space: of the outcome.
    """

    def __init__(
        self, inner: spaces.Dict, action: spaces.Dict, name: str, masks: Literal["keep", "join", "drop"]
    ) -> None:
        self._name = name
        apart = set() if masks == "join" else masks_of(inner, action)
        self._parts = {key: space for key, space in inner.spaces.items() if key not in apart}
        self._beside = [key for key in inner.spaces if key in apart and masks == "keep"]
        if not self._parts:
            raise SpaceError(
                "there is no observation but masks",
                received=str(inner),
                option="masks",
                owner="maze-wrappers: no-dict-observation",
                help='set masks = "join"',
            )
        outer = self._outer_space()
        self.space = spaces.Dict({name: outer, **{key: inner.spaces[key] for key in self._beside}})

    def join(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer, with any leading batch dimensions."""
        beside = {key: observation[key] for key in self._beside}
        if len(self._parts) == 1:
            (key,) = self._parts
            return {self._name: observation[key], **beside}
        vectors = [_vector(space, np.asarray(observation[key])) for key, space in self._parts.items()]
        return {self._name: np.concatenate(vectors, axis=-1), **beside}

    def join_tensors(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same of tensors."""
        import torch

        beside = {key: observation[key] for key in self._beside}
        if len(self._parts) == 1:
            (key,) = self._parts
            return {self._name: observation[key], **beside}
        vectors = [_tensor_vector(space, observation[key]) for key, space in self._parts.items()]
        return {self._name: torch.cat(vectors, dim=-1), **beside}

    def _outer_space(self) -> spaces.Space[Any]:
        if len(self._parts) == 1:
            (space,) = self._parts.values()
            return space
        bounds = [_bounds(space) for space in self._parts.values()]
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        return spaces.Box(low, high, low.shape, np.float32)


def _vector(space: spaces.Space[Any], value: np.ndarray) -> np.ndarray:
    """(…, n) float32."""
    lead = value.shape[: value.ndim - len(space.shape or ())]
    flat = value.reshape(*lead, -1)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        start, sizes = _categories(space)
        return _one_hot(flat - start, sizes)
    return flat.astype(np.float32)


def _tensor_vector(space: spaces.Space[Any], value: Tensor) -> Tensor:
    """The same of a tensor."""
    import torch

    flat = value.reshape(*value.shape[: value.ndim - len(space.shape or ())], -1)
    if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return flat.to(torch.float32)
    index = flat.to(torch.int64)
    categories = zip(*_categories(space), strict=True)
    parts = [torch.nn.functional.one_hot(index[..., i] - int(start), int(n)) for i, (start, n) in enumerate(categories)]
    return torch.cat(parts, dim=-1).to(torch.float32)


def _categories(space: spaces.Discrete | spaces.MultiDiscrete) -> tuple[np.ndarray, np.ndarray]:
    """First value and number of values of every element."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.start]), np.array([space.n])
    return np.asarray(space.start).ravel(), np.asarray(space.nvec).ravel()


def _one_hot(index: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    edges = np.concatenate([[0], np.cumsum(sizes)])
    result = np.zeros((*index.shape[:-1], int(edges[-1])), np.float32)
    np.put_along_axis(result, index.astype(np.int64) + edges[:-1], 1.0, axis=-1)
    return result


def _bounds(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(space, spaces.Box):
        return space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32)
    size = spaces.flatdim(space)
    return np.zeros(size, np.float32), np.ones(size, np.float32)
