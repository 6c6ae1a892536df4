"""From Gymnasium spaces to Maze's: a flat Dict with one Box, Discrete, MultiDiscrete or MultiBinary a key.

Nested Dict and Tuple spaces become joined keys (`camera_left`, `observation_0`), Discrete spaces start at 0, and
float64 becomes float32: single values and arrays with a leading batch dimension alike. A Box of integers that is an
action becomes a choice for each number. Graph, Sequence and Text spaces become padded arrays (`maze_gym.padding`), of
one environment at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_gym.padding import Padding, is_padded, padded_parts
from maze_kernel.errors import SpaceError

MOST_CHOICES = 50_000
"""Of an action that is a Box of integers, over all of its numbers: each is an output of the policy."""

Path = tuple[str | int, ...]
Convert = Callable[[Any], Any]
Conversion = tuple[spaces.Space[Any], Convert | None, Convert | None]
"""The outer space, and what turns inner values into outer ones and back; None where that is the identity."""


@attrs.frozen
class Leaf:
    """One key of the outer Dict space and where its value sits in the inner one."""

    key: str
    path: Path
    outer: spaces.Space[Any]
    decode: Convert | None
    """Inner value to outer; None where it is the identity."""
    encode: Convert | None
    """Outer value to inner; None where it is the identity."""


class SpaceAdapter:
    """Maps one Gymnasium space to a Maze Dict space and values both ways.

    Args:
        inner: the Gymnasium space of one environment.
        name: the key of a space that is neither Dict nor Tuple: "observation" or "action", whose values are chosen.
        padding: how Graph, Sequence and Text spaces are padded; None: they are refused.

    Attributes:
        encoded_key, decoded_key: the only key, where its value is handed on as it is; None: ask `encode` and `decode`.

    Raises:
        SpaceError: the space has no part, one without fixed array form or with too many choices, or two of one key.
    """

    def __init__(self, inner: spaces.Space[Any], name: str, padding: Padding | None = None) -> None:
        self._inner = inner
        convert = _action_conversion if name == "action" else _leaf_conversion
        self.leaves = tuple(_leaves(inner, name, (), convert, padding))
        keys = [leaf.key for leaf in self.leaves]
        if not keys:
            raise SpaceError(
                f"the {name} space has no part",
                received=str(inner),
                owner="maze-gym",
                help="without anything to see, show a constant: Box(0, 1, (1,))"
                if name == "observation"
                else "where there is nothing to choose, give one choice: Discrete(1)",
            )
        if repeated := sorted({key for key in keys if keys.count(key) > 1}):
            raise SpaceError(
                f"two parts of the {name} space are both called {repeated[0]!r} after flattening",
                received=str(inner),
                owner="maze-gym",
                help="rename one of the nested keys",
            )
        self.outer = spaces.Dict({leaf.key: leaf.outer for leaf in self.leaves})
        only = self.leaves[0] if len(self.leaves) == 1 and not self.leaves[0].path else None
        self._only = only
        self.encoded_key = only.key if only is not None and only.encode is None else None
        self.decoded_key = only.key if only is not None and only.decode is None else None

    def decode(self, value: Any) -> dict[str, Any]:
        """Inner value (one environment's or a batch) to a flat dict."""
        only = self._only
        if only is not None:
            return {only.key: value if only.decode is None else only.decode(value)}
        result = {}
        for leaf in self.leaves:
            part = value
            for step in leaf.path:
                part = part[step]
            result[leaf.key] = part if leaf.decode is None else leaf.decode(part)
        return result

    def encode(self, values: dict[str, Any]) -> Any:
        """A flat dict (one environment's or a batch) to the inner value."""
        only = self._only
        if only is not None:
            value = values[only.key]
            return value if only.encode is None else only.encode(value)
        parts = {leaf.path: _encoded(leaf, values[leaf.key]) for leaf in self.leaves}
        return _nested(self._inner, (), parts)


def _encoded(leaf: Leaf, value: Any) -> Any:
    return value if leaf.encode is None else leaf.encode(value)


def _nested(space: spaces.Space[Any], path: Path, parts: dict[Path, Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _nested(child, (*path, key), parts) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nested(child, (*path, index), parts) for index, child in enumerate(space.spaces))
    return parts[path]


def _leaves(
    space: spaces.Space[Any],
    name: str,
    path: Path,
    convert: Callable[[spaces.Space[Any], str], Conversion],
    padding: Padding | None,
) -> Iterator[Leaf]:
    children: list[tuple[str, str | int, spaces.Space[Any]]]
    if isinstance(space, spaces.Dict):
        prefix = f"{name}_" if path else ""
        children = [(f"{prefix}{key}", key, child) for key, child in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        children = [(f"{name}_{index}", index, child) for index, child in enumerate(space.spaces)]
    elif padding is not None and is_padded(space):
        yield from (Leaf(key, path, outer, decode, None) for key, outer, decode in padded_parts(space, name, padding))
        return
    else:
        outer, decode, encode = convert(space, name)
        yield Leaf(name, path, outer, decode, encode)
        return
    for child_name, step, child in children:
        yield from _leaves(child, child_name, (*path, step), convert, padding)


def _action_conversion(space: spaces.Space[Any], name: str) -> Conversion:
    if not isinstance(space, spaces.Box) or space.dtype in (np.float32, np.float64):
        return _leaf_conversion(space, name)
    if np.issubdtype(space.dtype, np.floating):
        return space, None, lambda value: np.asarray(value, dtype=space.dtype)
    return _integers_conversion(space, name)


def _leaf_conversion(space: spaces.Space[Any], name: str) -> Conversion:
    if isinstance(space, spaces.Box):
        return _box_conversion(space)
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return _shifted(spaces.Discrete(int(space.n)), start, bool(start))
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.asarray(space.start)
        outer = spaces.MultiDiscrete(np.asarray(space.nvec), dtype=space.dtype)
        return _shifted(outer, starts, bool(starts.any()))
    if isinstance(space, spaces.MultiBinary):
        return space, None, None
    raise SpaceError(
        f"maze-gym cannot serve the {type(space).__name__} space of {name!r}",
        received=str(space),
        expected="Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them",
        owner="maze-gym",
        help="turn it into a Box of fixed size with a Gymnasium wrapper, e.g. gymnasium.wrappers.TransformObservation",
    )


def _shifted(outer: spaces.Space[Any], start: Any, needed: bool) -> Conversion:
    if not needed:
        return outer, None, None
    return outer, lambda value: value - start, lambda value: value + start


def _integers_conversion(space: spaces.Box, name: str) -> Conversion:
    """A choice for each number of the Box, in its order, whatever its shape."""
    low, high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
    n_choices = high - low + 1.0
    if not n_choices.sum() <= MOST_CHOICES:
        raise SpaceError(
            f"the integers of {name!r} have {n_choices.sum():,.0f} choices altogether",
            received=str(space),
            expected=f"at most {MOST_CHOICES:,}",
            owner="maze-gym",
            help="choose narrower bounds, or take a Box of floats and round its numbers in the environment",
        )
    starts = low.astype(np.int64)

    def decode(value: Any) -> np.ndarray:
        array = np.asarray(value).astype(np.int64)
        return array.reshape((*array.shape[: array.ndim - len(space.shape)], len(starts))) - starts

    def encode(value: Any) -> np.ndarray:
        array = np.asarray(value) + starts
        return array.reshape((*array.shape[:-1], *space.shape)).astype(space.dtype)

    return spaces.MultiDiscrete(n_choices.astype(np.int64)), decode, encode


def _box_conversion(space: spaces.Box) -> Conversion:
    if space.dtype != np.float64:
        return space, None, None
    with np.errstate(over="ignore"):
        outer = spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), space.shape, np.float32)

    def decode(value: Any) -> np.ndarray:
        return np.asarray(value, dtype=np.float32)

    def encode(value: Any) -> np.ndarray:
        # float32 rounding may leave the bounds by one unit in the last place.
        return np.clip(np.asarray(value, dtype=np.float64), space.low, space.high)

    return outer, decode, encode
