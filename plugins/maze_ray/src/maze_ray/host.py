"""What runs in an actor's process on the cluster: build the actor, answer one call after the other.

Ray runs constructor and methods of an actor without concurrency groups in the main thread, one at a time. Whatever the
actor raises travels as data, so that Ray neither wraps nor prints it.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import ray

from maze_kernel.contracts.workers import ActorContext
from maze_kernel.errors import MazeError
from maze_ray.board import Pinned
from maze_ray.facts import check_versions
from maze_ray.messages import EXITED, RAISED, VALUE, Packed, Raised, pack, unpack

Answer = tuple[str, Packed]
"""The kind, and the packed value or `Raised`."""

_PLUMBING = os.path.dirname(__file__)


@attrs.frozen(kw_only=True)
class HostSpec:
    """What the actors of a group have in common.

    Attributes:
        group: its key on the board.
        folder: the caller's working directory, where files are shared; None: stay where Ray starts.
        versions: of the caller's Python and distributions.
    """

    group: str
    n_actors: int
    newest_weights: bool
    torch_threads: int
    folder: str | None
    versions: Mapping[str, str]


class Host:
    """One actor of a group, in a process of its own.

    Args:
        index: of the actor.
        spec: of its group.
        board: a handle.
    """

    def __init__(self, index: int, spec: HostSpec, board: Any) -> None:
        self._index = index
        self._spec = spec
        self._board = board
        self._actor: Any = None
        self._version = 0
        self._watchdog: _Watchdog | None = None

    def __repr__(self) -> str:
        return f"actor {self._index}"

    def place(self) -> tuple[int, str, str]:
        """Process, address of its node, and the node's identifier."""
        return os.getpid(), ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()

    def build(
        self, factory: bytes, constants: Mapping[str, np.ndarray], timeout_seconds: float | None, requested: float
    ) -> Answer:
        """Build the actor.

        Args:
            factory: packed.
            constants: the node's one copy.
            timeout_seconds: from when it was requested.
            requested: the caller's clock.
        """
        if timeout_seconds is not None:
            # Clocks of two machines differ; a process that is still being built is shown by whichever is later.
            timeout_seconds = min(timeout_seconds, max(0.0, requested + timeout_seconds - time.time()))
        return self._answer(lambda: self._build(factory, constants), timeout_seconds)

    def call(self, message: Packed, weights: np.ndarray | None, version: int, timeout_seconds: float | None) -> Answer:
        """Run one method.

        Args:
            message: a packed method and its arguments.
            weights: to load before, None where the actor has them.
            version: of the weights.
            timeout_seconds: when to leave the stacks of all threads on the board.
        """
        return self._answer(lambda: self._call(message, weights, version), timeout_seconds)

    def close(self, timeout_seconds: float | None) -> Answer:
        """Let the actor close, if it wants to."""
        return self._answer(self._close, timeout_seconds)

    def _build(self, factory: bytes, constants: Mapping[str, np.ndarray]) -> None:
        spec = self._spec
        check_versions(spec.versions, ray.util.get_node_ip_address())
        if spec.folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(spec.folder)
        random.seed()
        np.random.seed()
        for array in constants.values():
            array.flags.writeable = False
        context = ActorContext(index=self._index, n_actors=spec.n_actors, arrays={}, constants=constants)
        self._actor = cloudpickle.loads(factory)(context)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(spec.torch_threads)

    def _call(self, message: Packed, weights: np.ndarray | None, version: int) -> Any:
        if weights is not None:
            self._load(weights, version)
        if self._spec.newest_weights:
            pinned: Pinned | None = ray.get(self._board.newest.remote(self._spec.group, self._version))
            if pinned is not None:
                payload, newest = pinned
                flat: np.ndarray = ray.get(payload[0]) if isinstance(payload, list) else payload
                self._load(flat, newest)
        method, arguments = unpack(message)
        return getattr(self._actor, method)(*arguments)

    def _load(self, weights: np.ndarray, version: int) -> None:
        self._version = version
        self._actor.load_weights(weights.copy(), version)

    def _close(self) -> None:
        close = getattr(self._actor, "close", None)
        self._actor = None
        if close is not None:
            close()

    def _answer(self, function: Callable[[], Any], timeout_seconds: float | None) -> Answer:
        try:
            with self._watched(timeout_seconds):
                return VALUE, pack(function())
        except SystemExit as error:
            return EXITED, pack(_described(error))
        except BaseException as error:
            return RAISED, pack(_described(error))

    def _watched(self, timeout_seconds: float | None) -> contextlib.AbstractContextManager[None]:
        if timeout_seconds is None:
            return contextlib.nullcontext()
        if self._watchdog is None:
            key = f"{self._spec.group}/{self._index}/{os.getpid()}"
            self._watchdog = _Watchdog(lambda text: self._board.leave_stacks.remote(key, text))
        return self._watchdog.watch(timeout_seconds)


class _Watchdog:
    """A thread that reports what all others are doing when a call is past its deadline.

    Args:
        report: is given the stacks.
    """

    def __init__(self, report: Callable[[str], Any]) -> None:
        self._report = report
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="maze-watchdog", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def watch(self, seconds: float) -> Any:
        """While this is entered, the deadline runs."""
        with self._changed:
            self._deadline = time.monotonic() + seconds
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._deadline = None

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._deadline is None or (wait := self._deadline - time.monotonic()) > 0:
                    self._changed.wait(None if self._deadline is None else wait)
                self._deadline = None
            self._report(_stacks(self._thread.ident))


def _stacks(leave_out: int | None) -> str:
    """The stacks of all Python threads but one, innermost call last, without the frames of this package and Ray."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for identifier, frame in sys._current_frames().items():
        own = [entry for entry in traceback.extract_stack(frame) if not _is_plumbing(entry.filename)]
        if identifier != leave_out and own:
            lines = "".join(traceback.format_list(own))
            parts.append(f"Thread {names.get(identifier, identifier)} (most recent call last):\n{lines}")
    return "\n".join(parts)


def _is_plumbing(filename: str) -> bool:
    return filename.startswith((_PLUMBING, os.path.dirname(ray.__file__)))


def _described(error: BaseException) -> Raised:
    # A MazeError says what it has to say itself; what is wanted is how the foreign error behind it came about.
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
    code = None
    if isinstance(error, SystemExit):
        code = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
    return Raised(type(error).__name__, text, "".join(traceback.format_exception(origin)), original, code)
