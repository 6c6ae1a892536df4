"""MazeStates, MazeActions and events as JSON text, with their arrays aside: no pickle, and nothing to be run.

    attrs, dataclass or plain object   {"$type": "CuttingState", field: …}
    array                              {"$array": n}, the n-th of `ObjectEncoder.arrays`
    enum, set, bytes                   {"$enum": [type, member]}, {"$set": […]}, {"$bytes": base64}
    NaN and infinities                 {"$float": "nan"}
    a dict with other keys than words  {"$map": [[key, value], …]}

Tuples become lists; reading gives them back where a class annotates its fields (`object_decoding`).
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.events import EventRecord
from maze_kernel.errors import EnvError

TYPE, ARRAY, ENUM, SET, BYTES, FLOAT, MAP = "$type", "$array", "$enum", "$set", "$bytes", "$float", "$map"

_NO_ARRAY = frozenset("OUSVMm")
"""Kinds of NumPy dtypes that a safetensors file does not hold."""


class ObjectEncoder:
    """Encodes objects of one episode.

    Attributes:
        arrays: those met so far.
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._n_objects = 0

    def encode(self, value: Any, what: str) -> str:
        """JSON text.

        Args:
            value: built of attrs classes, dataclasses, plain objects, enums, arrays, containers and scalars.
            what: names it in the error.

        Raises:
            EnvError: a part of it is something else.
        """
        n_arrays = len(self.arrays)
        try:
            self._n_objects = 0
            text = _dumps(value, self._default)
            # Every object was seen by `_default`. Were there dicts as well, their keys need looking at.
            if text.count("{") == self._n_objects:
                return text
        except (TypeError, ValueError):
            pass  # keys that are no words, NaN, infinity; what is no data is met again below
        del self.arrays[n_arrays:]
        try:
            return _dumps(self._tree(value), None)
        except (TypeError, ValueError, RecursionError) as error:
            raise _cannot_record(what, error) from error

    def _default(self, value: Any) -> Any:
        """What the JSON encoder does not know, one level deep; it goes on with the parts."""
        if isinstance(value, np.generic) and not isinstance(value, np.void):
            return value.item()
        self._n_objects += 1
        if isinstance(value, EventRecord):
            self._n_objects += 1
            return {"event": value.name, "attributes": value.attributes}
        if isinstance(value, np.ndarray):
            return {ARRAY: self._put(value)}
        if isinstance(value, enum.Enum):
            return {ENUM: [type(value).__qualname__, value.name]}
        if isinstance(value, (set, frozenset)):
            return {SET: sorted(value, key=repr)}
        if isinstance(value, bytes):
            return {BYTES: base64.b64encode(value).decode()}
        if isinstance(value, Mapping):
            return {MAP: [[key, item] for key, item in value.items()]}
        return {TYPE: type(value).__qualname__, **_fields(value)}

    def _tree(self, value: Any) -> Any:
        """The whole value, every part looked at."""
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {FLOAT: repr(float(value))}
        if isinstance(value, (list, tuple)):
            return [self._tree(item) for item in value]
        if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: self._tree(item) for key, item in value.items()}
        known = self._default(value)
        if not isinstance(known, dict):
            return self._tree(known)
        return {key: self._tree(item) for key, item in known.items()}

    def _put(self, array: np.ndarray) -> int:
        if array.dtype.kind in _NO_ARRAY:
            raise TypeError(f"an array of {array.dtype} cannot be stored")
        self.arrays.append(np.array(array))
        return len(self.arrays) - 1


def _dumps(value: Any, default: Any) -> str:
    return json.dumps(value, default=default, allow_nan=False, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    cls: Any = type(value)
    names = _field_names(cls)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if hasattr(value, "__dict__") and not callable(value):
        return dict(vars(value))
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__} is no data")


@cache
def _field_names(cls: Any) -> tuple[str, ...] | None:
    if attrs.has(cls):
        return tuple(field.name for field in attrs.fields(cls))
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return None


def _cannot_record(what: str, error: Exception) -> EnvError:
    return EnvError(
        f"{what} cannot be recorded: {error}",
        expected="attrs classes or dataclasses of numbers, text, arrays, lists, tuples and dicts",
        help="keep handles and callbacks out of the state, or leave recording out",
    )
