"""How calls and answers travel to an actor's process and back: frames on a stream socket.

The only file that serialises Python objects (with cloudpickle), and only between a process and the workers it
started itself; nothing here ever reads a file. A frame is a kind, the version of the weights the call is meant
for, the length of the body, and the body.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from maze_runtime.workers.modules import modules_to_ship

HEADER = struct.Struct("<BQQ")

# To an actor.
BUILD, CALL, NAME, CLOSE, SHARE = range(5)
"""Bodies: BUILD `ActorSpec`; SHARE `ArrayLayout`; CALL `(method, args)`; NAME the method in UTF-8, no arguments."""

# From an actor.
NONE, VALUE, RAISED = range(10, 13)
"""NONE: the call returned None, no body; VALUE: what it returned; RAISED: `(type, message, traceback, error)`."""


def frame(kind: int, version: int, body: bytes) -> bytes:
    """One frame, ready to send."""
    return HEADER.pack(kind, version, len(body)) + body


def encode(value: Any) -> bytes:
    """An object as bytes for the other side."""
    data: bytes = cloudpickle.dumps(value)
    return data


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The object the other side encoded."""
    return cloudpickle.loads(data)


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
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Add received bytes; returns the frames `(kind, version, body)` they complete."""
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            kind, version, length = HEADER.unpack_from(self._buffer, start)
            end = start + HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((kind, version, bytes(self._buffer[start + HEADER.size : end])))
            start = end
        del self._buffer[:start]
        return frames


def receive_exactly(connection: socket.socket, n_bytes: int) -> bytes:
    """Block until n bytes arrived.

    Raises:
        EOFError: the other side is gone.
    """
    data = connection.recv(n_bytes)
    if len(data) == n_bytes:
        return data
    if not data:
        raise EOFError
    buffer = bytearray(data)
    while len(buffer) < n_bytes:
        data = connection.recv(min(n_bytes - len(buffer), 1 << 20))
        if not data:
            raise EOFError
        buffer += data
    return bytes(buffer)


def receive_frame(connection: socket.socket) -> tuple[int, int, bytes]:
    """Block for the next frame `(kind, version, body)`."""
    kind, version, length = HEADER.unpack(receive_exactly(connection, HEADER.size))
    return kind, version, receive_exactly(connection, length) if length else b""
