"""From an observation in its space's dtype to the float tensors that networks read. Nothing is trained here.

Discrete becomes one-hot, MultiDiscrete the one-hots of its dimensions one behind the other, bits and integers
become floats, images of bytes are divided by 255, links of graphs (`env.graph_links`) are not. Scaling and normalising
beyond that is a wrapper's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import SpaceError
from maze_runtime.env.graph_links import links_of
from maze_runtime.models.device_constants import DeviceConstants
from maze_runtime.models.image_layout import channels_first, in_fast_layout


@attrs.frozen
class Encoding:
    """How one entry is encoded; None: as it is."""

    shape: tuple[int, ...]
    torch: Callable[[Tensor], Tensor] | None = None
    numpy: Callable[[np.ndarray], np.ndarray] | None = None


class ObservationEncoder:
    """Encodes the entries of a Dict observation.

    Args:
        space: the observation space of one policy key.
        raw: names that pass through unchanged (action masks).

    Attributes:
        shapes: name to the shape of one encoded sample.
    """

    def __init__(self, space: spaces.Dict, raw: Iterable[str] = ()) -> None:
        unchanged, links = set(raw), links_of(space)
        self._encodings = {
            name: Encoding(tuple(entry.shape or ())) if name in unchanged else encoding_of(name, entry, name in links)
            for name, entry in space.spaces.items()
        }
        self.shapes = {name: encoding.shape for name, encoding in self._encodings.items()}
        self._torch = tuple((n, e.torch) for n, e in self._encodings.items() if e.torch is not None)
        self._numpy = tuple((n, e.numpy) for n, e in self._encodings.items() if e.numpy is not None)
        self._planes = tuple(
            n for n, entry in space.spaces.items() if n not in unchanged and _is_planes_of_bytes(entry)
        )

    def encode(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """(B, ...) tensors in the space's dtype to (B, *shape) floats; the input is not changed."""
        if not self._torch:
            return observation
        encoded = dict(observation)
        for name, function in self._torch:
            encoded[name] = function(encoded[name])
        return encoded

    def arranged(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same (B, ...) tensors, laid out as `encode` would lay them out for a gradient: for many calls of it."""
        return observation | {name: _image_in_fast_layout(observation[name]) for name in self._planes}

    def encode_numpy(self, observation: ArrayDict) -> ArrayDict:
        """Like `encode`."""
        if not self._numpy:
            return observation
        encoded = dict(observation)
        for name, function in self._numpy:
            encoded[name] = function(encoded[name])
        return encoded


def encoding_of(name: str, space: spaces.Space[Any], are_links: bool = False) -> Encoding:
    """The encoding of one entry of an observation.

    Args:
        name: of the entry, for the error.
        space: of it.
        are_links: it holds node numbers, which stay what they are.

    Raises:
        SpaceError: a space with no encoding, or without a number.
    """
    if 0 in (space.shape or ()):
        raise SpaceError(
            f"observation {name!r} holds no numbers",
            received=str(space),
            expected="at least one number",
            owner="maze-runtime",
            help="leave it out; an observation that tells nothing is a constant: Box(0, 1, (1,))",
        )
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]), ())
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec.reshape(-1), space.start.reshape(-1), space.nvec.shape)
    if isinstance(space, spaces.MultiBinary):
        return _to_float(tuple(space.shape))
    if isinstance(space, spaces.Box):
        return _to_float(space.shape) if are_links and is_bytes(space) else _box(space)
    raise SpaceError(
        f"observation {name!r} cannot be fed to a network",
        received=str(space),
        expected="Box, Discrete, MultiDiscrete or MultiBinary",
        owner="maze-runtime",
        help="flatten or convert it in a wrapper",
    )


def _box(space: spaces.Box) -> Encoding:
    if space.shape == ():
        return Encoding((1,), lambda x: x.float().unsqueeze(-1), lambda x: np.asarray(x, np.float32)[..., None])
    if is_bytes(space):
        in_layout = _image_in_fast_layout if _is_planes_of_bytes(space) else _as_it_is
        return Encoding(
            tuple(space.shape),
            # One large tensor in place of two: fresh memory costs more than the arithmetic.
            lambda x: in_layout(x).to(torch.float32, copy=True).mul_(1.0 / 255.0),
            lambda x: np.multiply(x, np.float32(1.0 / 255.0), dtype=np.float32),
        )
    if space.dtype == np.float32:
        return Encoding(tuple(space.shape))
    return _to_float(tuple(space.shape))


def is_bytes(space: spaces.Space[Any]) -> bool:
    """Whether this is a Box of bytes up to 255, which are divided by that."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and bool((space.high == 255).all())


def _is_planes_of_bytes(space: spaces.Space[Any]) -> bool:
    """Whether this is an image of bytes (C, H, W)."""
    shape = tuple(space.shape or ())
    return is_bytes(space) and len(shape) == 3 and not channels_first(shape)[1]


def _image_in_fast_layout(x: Tensor) -> Tensor:
    """Images (B, C, H, W) as convolutions want them: bytes are turned around in a quarter of the memory of floats."""
    return in_fast_layout(x) if x.dim() == 4 else x


def _as_it_is(x: Tensor) -> Tensor:
    return x


def _to_float(shape: tuple[int, ...]) -> Encoding:
    return Encoding(shape, lambda x: x.float(), lambda x: x.astype(np.float32))


def _one_hot(sizes: np.ndarray, start: np.ndarray, shape: tuple[int, ...]) -> Encoding:
    """Column c of the encoding is 1 where dimension `dimension[c]` has the value `value[c]`."""
    dimension = np.repeat(np.arange(len(sizes)), sizes)
    value = np.concatenate([first + np.arange(size) for first, size in zip(start, sizes, strict=True)])
    columns = _Columns(dimension.astype(np.int64), value.astype(np.int64), shape)
    return Encoding((len(value),), columns.torch, columns.numpy)


class _Columns:
    """One-hot by comparison; the constants follow the observation to its device."""

    def __init__(self, dimension: np.ndarray, value: np.ndarray, shape: tuple[int, ...]) -> None:
        self._dimension, self._value, self._rank = dimension, value, len(shape)
        self._constants = DeviceConstants([torch.from_numpy(dimension), torch.from_numpy(value)])
        self._single = int(dimension[-1]) == 0
        self._n_dimensions = int(dimension[-1]) + 1  # -1 would not do in an empty batch

    def torch(self, observation: Tensor) -> Tensor:
        dimension, value = self._constants.on(observation.device)
        rows = observation.reshape(*observation.shape[: observation.dim() - self._rank], self._n_dimensions)
        if not self._single:
            rows = rows.index_select(-1, dimension)
        return (rows == value).float()

    def numpy(self, observation: np.ndarray) -> np.ndarray:
        rows = observation.reshape(*observation.shape[: observation.ndim - self._rank], self._n_dimensions)
        if not self._single:
            rows = rows[..., self._dimension]
        encoded: np.ndarray = (rows == self._value).astype(np.float32)
        return encoded
