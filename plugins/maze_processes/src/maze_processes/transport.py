"""How calls and answers travel to an actor's process and back: frames on a stream socket.

Serialises Python objects (`maze_runtime.workers.pickling`), and only between a process and the workers it
started itself; nothing here ever reads a file. A frame is a kind, the number of buffers, the version of the weights the
call is meant for and the length of the body, then the lengths of the buffers, the body, and the buffers: large arrays,
which are neither copied into the body nor out of it (pickle protocol 5).
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from maze_runtime.workers.modules import modules_to_ship
from maze_runtime.workers.pickling import dumps

HEADER = struct.Struct("<BIQQ")
_LENGTH = struct.Struct("<Q")
_LARGE_BYTES = 1 << 16
"""Above this a copy costs more than what it takes to do without."""
_RECEIVE_BYTES = 1 << 18
MAX_PARTS = 64
"""Of one call to the socket; systems allow 1024."""

Parts = tuple[bytes | memoryview, ...]
"""What a frame consists of, one behind the other."""
Frame = tuple[int, int, "bytes | memoryview", tuple[memoryview, ...]]
"""Kind, version, body and buffers."""

# To an actor.
BUILD, CALL, NAME, CLOSE, SHARE = range(5)
"""Bodies: BUILD `ActorSpec`; SHARE `ArrayLayout`; CALL `(method, args)`; NAME the method in UTF-8, no arguments."""

# From an actor.
NONE, VALUE, RAISED = range(10, 13)
"""NONE: the call returned None, no body; VALUE: what it returned; RAISED: `(type, message, traceback, error)`."""


def frame(kind: int, version: int, body: bytes = b"", buffers: Sequence[memoryview] = ()) -> Parts:
    """One frame, ready to send."""
    head = HEADER.pack(kind, len(buffers), version, len(body))
    if buffers:
        head += b"".join(_LENGTH.pack(len(buffer)) for buffer in buffers)
    return (head, body, *buffers) if len(body) > _LARGE_BYTES else (head + body, *buffers)


def encode(value: Any) -> bytes:
    """An object as bytes for the other side."""
    return dumps(value)


def encode_apart(value: Any, *, copy: bool) -> tuple[bytes, list[memoryview]]:
    """An object as bytes, and the memory of its large arrays beside them.

    Args:
        value: to be decoded by the other side.
        copy: whether the arrays are copied; else they must stay as they are until they are sent.
    """
    buffers: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if len(raw) <= _LARGE_BYTES:
            return True
        buffers.append(np.array(raw).data if copy else raw)
        return False

    return dumps(value, stays_inside), buffers


def decode(data: bytes | memoryview, buffers: Sequence[memoryview] = ()) -> Any:
    """The object the other side encoded; its large arrays lie in `buffers`."""
    return cloudpickle.loads(data, buffers=buffers)


def encode_factory(factory: Any) -> bytes:
    """A factory as bytes.

    Modules that a fresh interpreter could not import by name (a plugin file beside the experiment, a test file)
    are shipped by value.
    """
    modules = modules_to_ship(cloudpickle.list_registry_pickle_by_value())
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return encode(factory)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


class FrameReader:
    """Cuts a byte stream into frames. What is large is received into the memory where it stays."""

    def __init__(self) -> None:
        self.is_drained = True
        """The last call of the socket gave all there was."""
        self._rest = b""
        self._large: _LargeFrame | None = None

    @property
    def is_midway(self) -> bool:
        """A large frame has begun to arrive, so more is under way."""
        return self._large is not None

    def receive(self, connection: socket.socket) -> list[Frame]:
        """Take in what one call of the socket gives; returns the frames that it completes.

        Raises:
            EOFError: the other side is gone.
            OSError: as for `recv`; `BlockingIOError` where there is nothing yet.
        """
        if self._large is None:
            data = connection.recv(_RECEIVE_BYTES)
            if not data:
                raise EOFError
            frames = self._cut(self._rest + data if self._rest else data)
            self.is_drained = len(data) < _RECEIVE_BYTES and self._large is None
            return frames
        self._large.receive(connection)
        if not self._large.is_complete:
            return []
        frame, self._large = self._large.frame, None
        return [frame]

    def _cut(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        start = 0
        while len(data) - start >= HEADER.size:
            kind, n_buffers, version, length = HEADER.unpack_from(data, start)
            body = start + HEADER.size
            if n_buffers or length > _LARGE_BYTES:
                first = body + n_buffers * _LENGTH.size
                if len(data) < first:
                    break
                lengths = [length, *(size for (size,) in _LENGTH.iter_unpack(data[body:first]))]
                large = _LargeFrame(kind, version, lengths)
                start = first + large.fill(memoryview(data)[first:])
                if not large.is_complete:
                    self._large = large
                    break
                frames.append(large.frame)
                continue
            if len(data) < body + length:
                break
            start = body + length
            frames.append((kind, version, data[body:start], ()))
        self._rest = data[start:]
        return frames


class _LargeFrame:
    """A frame whose body and buffers arrive in pieces.

    Args:
        kind, version: of the frame.
        lengths: bytes of the body and of each buffer.
    """

    def __init__(self, kind: int, version: int, lengths: list[int]) -> None:
        # Memory of NumPy's is not cleared, and has large pages where it is large.
        parts = [np.empty(length, np.uint8).data for length in lengths]
        self.frame: Frame = (kind, version, parts[0], tuple(parts[1:]))
        self._missing = deque(part for part in parts if len(part))

    @property
    def is_complete(self) -> bool:
        return not self._missing

    def fill(self, data: memoryview) -> int:
        """Copy what belongs to this frame from the beginning of `data`; returns how many bytes that were."""
        n_taken = 0
        while self._missing and n_taken < len(data):
            target = self._missing[0]
            n_bytes = min(len(target), len(data) - n_taken)
            target[:n_bytes] = data[n_taken : n_taken + n_bytes]
            n_taken += n_bytes
            self._advance(n_bytes)
        return n_taken

    def receive(self, connection: socket.socket) -> None:
        """See `FrameReader.receive`."""
        n_bytes = connection.recv_into(self._missing[0])
        if not n_bytes:
            raise EOFError
        self._advance(n_bytes)

    def _advance(self, n_bytes: int) -> None:
        target = self._missing.popleft()
        if n_bytes < len(target):
            self._missing.appendleft(target[n_bytes:])


def send(connection: socket.socket, parts: Parts) -> None:
    """Block until a frame is sent.

    Raises:
        OSError: the other side is gone.
    """
    if len(parts) == 1:
        connection.sendall(parts[0])
        return
    n_sent = connection.sendmsg(parts[:MAX_PARTS])
    for part in parts:
        if n_sent < len(part):
            connection.sendall(memoryview(part)[n_sent:])
        n_sent = max(0, n_sent - len(part))
