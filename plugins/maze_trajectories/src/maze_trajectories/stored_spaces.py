"""Spaces as JSON data and back, so that whoever reads a file knows them without building the environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.errors import SpaceError


def spaces_to_data(structured: StructuredSpaces) -> dict[str, Any]:
    """Dicts, lists, strings and numbers.

    Raises:
        SpaceError: a leaf is no Box, Discrete, MultiDiscrete or MultiBinary.
    """
    return {
        "observation": {key: _dict_to_data(space) for key, space in structured.observation.items()},
        "action": {key: _dict_to_data(space) for key, space in structured.action.items()},
        "agent_counts": dict(structured.agent_counts),
    }


def spaces_from_data(data: Mapping[str, Any]) -> StructuredSpaces:
    """The inverse of `spaces_to_data`.

    Raises:
        KeyError, TypeError, ValueError: the data are damaged.
    """
    return StructuredSpaces(
        observation={key: _dict_from_data(leaves) for key, leaves in data["observation"].items()},
        action={key: _dict_from_data(leaves) for key, leaves in data["action"].items()},
        agent_counts={str(key): int(count) for key, count in data["agent_counts"].items()},
    )


def _dict_to_data(space: spaces.Dict) -> dict[str, Any]:
    return {name: _leaf_to_data(leaf) for name, leaf in space.spaces.items()}


def _dict_from_data(leaves: Mapping[str, Any]) -> spaces.Dict:
    # Given as pairs, Gymnasium keeps the order.
    return spaces.Dict([(name, _leaf_from_data(leaf)) for name, leaf in leaves.items()])


def _leaf_to_data(space: spaces.Space[Any]) -> dict[str, Any]:
    if isinstance(space, spaces.Box):
        bounds = {"low": _bound(space.low), "high": _bound(space.high)}
        return {"space": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"space": "Discrete", "dtype": str(space.dtype), "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        sizes = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"space": "MultiDiscrete", "dtype": str(space.dtype), **sizes}
    if isinstance(space, spaces.MultiBinary):
        return {"space": "MultiBinary", "shape": list(space.shape)}
    raise SpaceError(
        f"a {type(space).__name__} space cannot be stored",
        received=str(space),
        expected="Box, Discrete, MultiDiscrete or MultiBinary under each key",
    )


def _leaf_from_data(leaf: Mapping[str, Any]) -> spaces.Space[Any]:
    kind = leaf["space"]
    if kind == "Box":
        dtype, shape = np.dtype(leaf["dtype"]), tuple(leaf["shape"])
        low, high = (np.broadcast_to(_numbers(leaf[side], dtype), shape) for side in ("low", "high"))
        return spaces.Box(low.copy(), high.copy(), shape, dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(leaf["n"], start=leaf["start"], dtype=np.dtype(leaf["dtype"]).type)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(leaf["nvec"], start=leaf["start"], dtype=np.dtype(leaf["dtype"]).type)
    if kind == "MultiBinary":
        shape = leaf["shape"]
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    raise ValueError(f"unknown space {kind!r}")


def _bound(bound: np.ndarray) -> Any:
    """One number where all are equal, which saves most of the text of an image space; infinities as text."""
    if bound.size and (bound == bound.flat[0]).all():
        bound = bound.flat[0]
    return _plain(bound.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Text is read as a number too: "inf"."""
    return np.asarray(value, np.float64).astype(dtype) if dtype.kind == "f" else np.asarray(value, dtype)
