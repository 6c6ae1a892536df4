"""What runs in a process of the pool "acme-pipes": build the actor, answer one message after the other.

A message is a `Message`, encoded; None ends the process. An answer is `(value, error)`, one of them None; an error is a
`RemoteError`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

import attrs
import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from maze_kernel.contracts.workers import ActorContext
from maze_kernel.errors import MazeError

STARTED = b"started"
"""What a process says before it builds its actor."""


@attrs.frozen(kw_only=True)
class Message:
    """One call: `body` holds the method and its arguments; `weights` those to load before, None where it has them."""

    body: bytes
    weights: tuple[np.ndarray, int] | None = None


@attrs.frozen(kw_only=True)
class RemoteError:
    """What an actor raised; `original` is the error itself, encoded, where it is one of Maze's."""

    type_name: str
    text: str
    traceback: str
    original: bytes | None


def serve(connection: Connection, factory: bytes, context: ActorContext, stacks: str, torch_threads: int) -> None:
    """The life of a process.

    Args:
        connection: to the caller.
        factory: encoded.
        context: of the actor.
        stacks: a file that takes the stacks of all threads on a crash, and on SIGUSR1.
        torch_threads: of each operation.
    """
    for array in context.constants.values():
        array.flags.writeable = False
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_caller, daemon=True).start()
    with open(stacks, "w", encoding="utf-8") as file:
        faulthandler.enable(file)
        faulthandler.register(signal.SIGUSR1, file)
        connection.send_bytes(STARTED)
        with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the caller is gone
            _Server(connection, torch_threads).run(factory, context)


def _leave_with_caller() -> None:
    """End this process, whatever it does, when the one that started it is gone."""
    caller = multiprocessing.parent_process()
    if caller is not None:
        caller.join()
        os._exit(1)


class _Server:
    def __init__(self, connection: Connection, torch_threads: int) -> None:
        self._connection = connection
        self._torch_threads = torch_threads
        self._actor: Any = None

    def run(self, factory: bytes, context: ActorContext) -> None:
        if not self._answer(lambda: self._build(factory, context)):
            return
        try:
            while not self._closes(message := cloudpickle.loads(self._connection.recv_bytes())):
                self._answer(lambda message=message: self._call(message))
        except (EOFError, ConnectionResetError):
            self._close()

    def _closes(self, message: Message | None) -> bool:
        if message is None:
            self._answer(self._close)
        return message is None

    def _build(self, factory: bytes, context: ActorContext) -> None:
        self._actor = cloudpickle.loads(factory)(context)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(self._torch_threads)

    def _call(self, message: Message) -> Any:
        if message.weights is not None:
            self._actor.load_weights(*message.weights)
        method, arguments = cloudpickle.loads(message.body)
        return getattr(self._actor, method)(*arguments)

    def _close(self) -> None:
        close = getattr(self._actor, "close", None)
        if close is not None:
            close()

    def _answer(self, function: Any) -> bool:
        """Send what a function returns or raises; whether it returned."""
        try:
            answer, error = cloudpickle.dumps((function(), None)), None
        except Exception as raised:
            error = raised
            answer = cloudpickle.dumps((None, _described(raised)))
        self._connection.send_bytes(answer)
        return error is None


def _described(error: Exception) -> RemoteError:
    own = isinstance(error, MazeError)
    origin = error.__cause__ if own and error.__cause__ is not None else error
    original = None
    if own:
        with contextlib.suppress(Exception):
            original = cloudpickle.dumps(error)
    try:
        text = str(error)
    except Exception:
        text = ""
    return RemoteError(
        type_name=type(error).__name__,
        text=text,
        traceback="".join(traceback.format_exception(origin)),
        original=original,
    )
