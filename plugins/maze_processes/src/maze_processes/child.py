"""What runs in an actor's process: build the actor, answer calls until told to close or the caller is gone."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import random
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np

from maze_kernel.contracts.workers import ActorContext
from maze_kernel.errors import MazeError
from maze_processes import transport
from maze_processes.shared_memory import ArrayLayout, WeightsBoard

_PR_SET_PDEATHSIG = 1
_NONE = transport.frame(transport.NONE, 0)


class Descriptors(NamedTuple):
    """What a worker's process is born with."""

    connection: int
    arrays: int
    weights: int
    dump: int
    """An anonymous file that takes the stacks of all threads on a crash, and on SIGUSR1."""


@attrs.frozen
class ActorSpec:
    """The body of a BUILD frame."""

    factory: bytes
    index: int
    n_actors: int
    layout: ArrayLayout
    constants: ArrayLayout
    """Behind `layout`, in the same file."""
    torch_threads: int
    newest_weights: bool = False


def run(descriptors: Descriptors, parent_id: int) -> int:
    """Serve one actor; returns the exit code of the process."""
    die_with_parent(parent_id)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP", "SIGCHLD"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    faulthandler.enable(descriptors.dump, all_threads=True)
    faulthandler.register(signal.SIGUSR1, descriptors.dump, all_threads=True)
    random.seed()
    np.random.seed()
    with socket.socket(fileno=descriptors.connection) as connection:
        connection.setblocking(True)
        return _Server(connection, descriptors).serve()


def die_with_parent(parent_id: int) -> None:
    """Have the kernel kill this process when its parent dies, and leave now if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_id:
        os._exit(1)


class _Server:
    def __init__(self, connection: socket.socket, descriptors: Descriptors) -> None:
        self._connection = connection
        self._reader = transport.FrameReader()
        self._received: deque[transport.Frame] = deque()
        self._descriptors = descriptors
        self._board = WeightsBoard(descriptors.weights)
        self._version = 0
        self._actor: Any = None
        self._newest_weights = False

    def serve(self) -> int:
        while True:
            try:
                kind, version, body, buffers = self._receive()
            except (EOFError, OSError):
                with contextlib.suppress(Exception):
                    self._close_actor()
                return 0
            try:
                answer = self._answer(kind, version, body, buffers)
            except SystemExit as error:
                # Left where the caller looks for the last words of a process that ended.
                os.write(self._descriptors.dump, "".join(traceback.format_exception(error)).encode())
                return _exit_code(error)
            except BaseException as error:
                self._send(transport.frame(transport.RAISED, 0, _describe(error)))
                if kind == transport.BUILD:
                    return 1
            else:
                self._send(answer)
            if kind == transport.CLOSE:
                return 0

    def _receive(self) -> transport.Frame:
        while not self._received:
            self._received.extend(self._reader.receive(self._connection))
        return self._received.popleft()

    def _answer(
        self, kind: int, version: int, body: bytes | memoryview, buffers: Sequence[memoryview]
    ) -> transport.Parts:
        if kind == transport.BUILD:
            self._build(transport.decode(body))
            return _NONE
        if kind == transport.CLOSE:
            self._close_actor()
            return _NONE
        if kind == transport.SHARE:
            self._actor.attach_arrays(transport.decode(body).map(self._descriptors.arrays))
            return _NONE
        wanted = max(version, self._board.newest()) if self._newest_weights else version
        if wanted > self._version:
            flat, self._version = self._board.read(wanted)
            self._actor.load_weights(flat, self._version)
        if kind == transport.NAME:
            value = getattr(self._actor, str(body, "utf-8"))()
        else:
            method, arguments = transport.decode(body, buffers)
            value = getattr(self._actor, method)(*arguments)
        if value is None:
            return _NONE
        return transport.frame(transport.VALUE, 0, *transport.encode_apart(value, copy=False))

    def _build(self, spec: ActorSpec) -> None:
        self._newest_weights = spec.newest_weights
        arrays = spec.layout.map(self._descriptors.arrays)
        constants = spec.constants.map(self._descriptors.arrays, writable=False)
        factory = transport.decode(spec.factory)
        context = ActorContext(index=spec.index, n_actors=spec.n_actors, arrays=arrays, constants=constants)
        self._actor = factory(context)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(spec.torch_threads)

    def _close_actor(self) -> None:
        close = getattr(self._actor, "close", None)
        self._actor = None
        if close is not None:
            close()

    def _send(self, parts: transport.Parts) -> None:
        # The caller may be gone: the next receive says so.
        with contextlib.suppress(OSError):
            transport.send(self._connection, parts)


def _describe(error: BaseException) -> bytes:
    # A MazeError says what it has to say itself; what is wanted is how the foreign error behind it came about.
    origin = error.__cause__ if isinstance(error, MazeError) and error.__cause__ is not None else error
    text = getattr(error, "user_traceback", None) or "".join(traceback.format_exception(origin))
    shipped = None
    if isinstance(error, MazeError):
        with contextlib.suppress(Exception):
            shipped = transport.encode(error)
    try:
        message = str(error)
    except Exception:
        message = ""
    return transport.encode((type(error).__name__, message, text, shipped))


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1
