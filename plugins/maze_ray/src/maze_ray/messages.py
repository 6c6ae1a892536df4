"""How calls and answers are packed: one pickle, beside it large arrays, which Ray carries without copying.

Arrays below `BY_VALUE_BYTES` lie inside the pickle and arrive as arrays of the receiver's own. Larger ones arrive as
read-only views of the node's object store. Only what this process and the actors it started tell each other is packed;
nothing here reads a file.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import attrs
import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from maze_runtime.workers.pickling import dumps

BY_VALUE_BYTES = 1 << 16
"""Below, a copy in every message is cheaper than an object that messages refer to."""

Packed = tuple[Any, ...]
"""The pickle, then the buffers it refers to."""

VALUE, RAISED, EXITED = "value", "raised", "exited"
"""Kinds of answers. EXITED: the actor called `sys.exit`."""


@attrs.frozen
class Raised:
    """What an actor raised, as data.

    Attributes:
        original: the packed error itself, where it is one of Maze's.
        exit_code: where it was `SystemExit`.
    """

    type_name: str
    text: str
    traceback: str
    original: bytes | None = None
    exit_code: int | None = None


def pack(value: Any) -> Packed:
    """An object, ready to send."""
    buffers: list[np.ndarray] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < BY_VALUE_BYTES:
            return True
        buffers.append(np.frombuffer(raw, np.uint8))
        return False

    return (dumps(value, keep_inside), *buffers)


def unpack(packed: Packed) -> Any:
    """The object the other side packed."""
    head, *buffers = packed
    return pickle.loads(head, buffers=buffers)


def is_large(packed: Packed) -> bool:
    """Whether to store it once instead of sending it to each of several actors."""
    return len(packed) > 1 or len(packed[0]) >= BY_VALUE_BYTES


def owned(message: Any) -> Any:
    """The same message with copies of the arrays that it only looks at; references stay."""
    return (message[0], *(np.array(buffer) for buffer in message[1:])) if isinstance(message, tuple) else message


def pack_factory(factory: Callable[..., Any], modules: list[Any]) -> bytes:
    """A factory with everything that `modules` define, for nodes that cannot import these."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return dumps(factory)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
