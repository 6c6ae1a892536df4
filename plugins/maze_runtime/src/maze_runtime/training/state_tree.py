"""Nested state dicts to flat tensors plus JSON, and back: what a checkpoint stores in place of a pickle.

Tensors and arrays go to safetensors under dotted names; everything else stays in a JSON tree that holds a small
marker where a tensor was. Types that come back: dict (string or integer keys), list, tuple, str, int of any size,
float, bool, None, bytes, numpy arrays and scalars, torch tensors.

Everything comes back as exactly what it was. Recorded MazeStates have an encoder of their own
(`maze_trajectories.object_encoding`): they are objects of an environment's classes, whose annotations restore tuples,
so that the standard library's encoder, which writes tuples as lists, can do most of the work.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

_MARK = "__maze__"


class StateError(TypeError):
    """A state holds what no checkpoint can.

    Args:
        path: of the value, "trainer.optimizer.0"; "" for the whole.
        kind: of the value, as text.
    """

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"state {path or 'root'!r} is {kind}, which a checkpoint cannot hold")
        self.path = path
        self.kind = kind


def flatten_state(state: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """Split a nested state into (JSON tree, tensors by dotted name); the tensors are copies on the CPU.

    Raises:
        StateError: a value of another type, named by its path.
    """
    tensors: dict[str, torch.Tensor] = {}
    return _flatten(state, "", tensors), tensors


def unflatten_state(tree: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The inverse of `flatten_state`."""
    if isinstance(tree, list):
        return [unflatten_state(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if _MARK not in tree:
        return {key: unflatten_state(value, tensors) for key, value in tree.items()}
    return _restore(tree, tensors)


def _flatten(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_MARK: "float", "value": repr(value)}
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        return _flatten_array(value, path, tensors)
    if isinstance(value, bytes):
        return {_MARK: "bytes", "value": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return _flatten_mapping(value, path, tensors)
    if isinstance(value, (list, tuple)):
        items = [_flatten(item, f"{path}.{index}", tensors) for index, item in enumerate(value)]
        return {_MARK: "tuple", "items": items} if isinstance(value, tuple) else items
    raise StateError(path.lstrip("."), f"of the type {type(value).__name__}")


def _flatten_mapping(value: Mapping[Any, Any], path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if all(isinstance(key, str) for key in value) and _MARK not in value:
        return {key: _flatten(item, f"{path}.{key}", tensors) for key, item in value.items()}
    items = [[_flatten(key, path, tensors), _flatten(item, f"{path}.{key}", tensors)] for key, item in value.items()]
    return {_MARK: "dict", "items": items}


def _flatten_array(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, np.generic):
        return {_MARK: "numpy-scalar", "dtype": value.dtype.str, "value": _flatten(value.item(), path, tensors)}
    name = path.lstrip(".") or "state"
    if name in tensors:
        name = f"{name}#{len(tensors)}"
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {_MARK: "tensor", "name": name}
    if value.dtype.kind not in "biuf":
        raise StateError(name, f"an array of {value.dtype}")
    flat = np.array(value, order="C", copy=True)
    marker = {_MARK: "array", "name": name, "dtype": flat.dtype.str, "shape": list(flat.shape)}
    tensors[name] = torch.from_numpy(flat.reshape(-1).view(np.uint8) if flat.size else np.zeros(0, np.uint8))
    return marker


def _restore(tree: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    kind = tree[_MARK]
    if kind == "tensor":
        return tensors[tree["name"]]
    if kind == "array":
        return tensors[tree["name"]].numpy().view(np.dtype(tree["dtype"])).reshape(tree["shape"]).copy()
    if kind == "tuple":
        return tuple(unflatten_state(item, tensors) for item in tree["items"])
    if kind == "dict":
        return {unflatten_state(k, tensors): unflatten_state(v, tensors) for k, v in tree["items"]}
    if kind == "numpy-scalar":
        return np.dtype(tree["dtype"]).type(unflatten_state(tree["value"], tensors))
    if kind == "bytes":
        return base64.b64decode(tree["value"])
    if kind == "float":
        return float(tree["value"])
    raise ValueError(f"unknown marker {kind!r} in a checkpoint")
