"""One actor of the pool "acme-pipes": its queue of calls, and the thread that puts them to its processes."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from maze_acme.pipe_process import ActorProcess
from maze_acme.pipe_worker import Message, RemoteError
from maze_kernel.contracts.workers import ActorContext, RestartPolicy
from maze_kernel.errors import MazeError, WorkerError

Weights = tuple[np.ndarray, int]
"""One flat buffer and its version."""


@attrs.frozen(kw_only=True)
class ActorSettings:
    """What the actors of a group have in common.

    Attributes:
        factory: encoded.
        constants: that every actor is sent.
        changed: notified whenever a call is done or an actor is ready or gone; guards everything here.
    """

    factory: bytes
    n_actors: int
    constants: Mapping[str, np.ndarray]
    restart: RestartPolicy
    build_timeout_seconds: float | None
    grace_seconds: float
    torch_threads: int
    changed: threading.Condition


class PipeCall:
    """The answer of one call; see `Future`."""

    def __init__(
        self,
        actor: PipeActor,
        method: str,
        body: bytes,
        weights: Weights | None,
        timeout_seconds: float | None,
    ) -> None:
        self.actor_index = actor.index
        self.method = method
        self.body = body
        self.weights = weights
        self.timeout_seconds = timeout_seconds
        self._actor = actor
        self._finished = False
        self._value: Any = None
        self._error: MazeError | None = None

    def done(self) -> bool:
        """Whether there is an answer."""
        return self._finished

    def result(self, timeout_seconds: float | None = None) -> Any:
        """See `Future.result`."""
        with self._actor.changed:
            if not self._actor.changed.wait_for(self.done, timeout_seconds):
                raise WorkerError(
                    f"actor {self.actor_index} has not answered {self.method!r} after {timeout_seconds:g} s; "
                    "it is still at work",
                    actor_index=self.actor_index,
                    process_id=self._actor.process_id,
                    cause="timeout",
                )
        if self._error is not None:
            raise self._error
        return self._value

    def finish(self, value: Any, error: MazeError | None) -> None:
        """Say what came of it; the caller holds the lock."""
        self._value, self._error, self._finished = value, error, True
        self.body = b""


class PipeActor:
    """The caller's side of one actor.

    Args:
        index: in its group.
        settings: of the group.
        newest_weights: gives the weights to begin a call with; None: those of the time when it was made.

    Attributes:
        ready: it is built and answers.
        failure: why there is no actor any more; every pending and later call fails with it.
        restarts: how often it was replaced.
        close_error: what went wrong when it was closed while it had nothing to do.
    """

    def __init__(
        self, index: int, settings: ActorSettings, newest_weights: Callable[[], Weights | None] | None
    ) -> None:
        self.index = index
        self.changed = settings.changed
        self.ready = False
        self.failure: MazeError | None = None
        self.restarts = 0
        self.close_error: MazeError | None = None
        self._settings = settings
        self._newest_weights = newest_weights
        self._forgiven = 0
        self._queue: deque[PipeCall] = deque()
        self._current: PipeCall | None = None
        self._process: ActorProcess | None = None
        self._closing = threading.Event()
        self._was_idle = False
        self._thread = threading.Thread(target=self._run, name=f"acme-pipes-{index}", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """The process it lives in."""
        process = self._process
        return None if process is None else process.process_id

    def submit(self, method: str, body: bytes, weights: Weights | None, timeout_seconds: float | None) -> PipeCall:
        """Queue a call."""
        call = PipeCall(self, method, body, weights, timeout_seconds)
        with self.changed:
            if self.failure is not None:
                call.finish(None, self.failure)
            else:
                self._queue.append(call)
            self.changed.notify_all()
        return call

    def forgive(self) -> None:
        """The restarts so far count no more."""
        with self.changed:
            self._forgiven = self.restarts

    def begin_close(self) -> None:
        """Let the calls that are queued run, then close the actor."""
        with self.changed:
            self._was_idle = self.ready and self._current is None and not self._queue
            self._closing.set()
            self.changed.notify_all()

    def end_close(self, seconds: float) -> None:
        """Wait until the process is gone, and end it after so many seconds; an idle actor ends by itself."""
        self._thread.join(None if self._was_idle else max(0.0, seconds))
        while self._thread.is_alive():
            if self._process is not None:
                self._process.kill()
            self._thread.join(0.1)

    def _run(self) -> None:
        wait = 0.0
        while not self._closing.wait(wait):
            error = self._live()
            next_wait = self._wait_for_replacement(error)
            if next_wait is None:
                return
            wait = next_wait
        self._wait_for_replacement(None)

    def _live(self) -> MazeError | None:
        """One process from start to end; returns what ended it, None where it was closed."""
        shared = self._settings
        context = ActorContext(index=self.index, n_actors=shared.n_actors, arrays={}, constants=shared.constants)
        try:
            process = ActorProcess(shared.factory, context, shared.torch_threads)
        except Exception as error:
            text = f"actor {self.index} has no process: {error}"
            return WorkerError(text, actor_index=self.index, cause="not started")
        with self.changed:
            self._process = process
        try:
            raised = process.build(shared.build_timeout_seconds)
            if raised is not None:
                return self._remote_error("its constructor", raised)
            self._serve(process)
            self._close(process)
        except WorkerError as error:
            return error
        except Exception as error:
            text = f"actor {self.index} cannot be talked to: {type(error).__name__}: {error}"
            return WorkerError(text, actor_index=self.index, cause="exited")
        finally:
            process.stop()
        return None

    def _serve(self, process: ActorProcess) -> None:
        """Put calls to the process until the group is closed."""
        with self.changed:
            self.ready = True
            self.changed.notify_all()
        version = 0
        while (call := self._next()) is not None:
            weights = call.weights if self._newest_weights is None else self._newest_weights()
            is_new = weights is not None and weights[1] != version
            message = Message(body=call.body, weights=weights if is_new else None)
            version = version if weights is None else weights[1]
            value, raised = process.ask(call.method, message, call.timeout_seconds)
            with self.changed:
                call.finish(value, None if raised is None else self._remote_error(call.method, raised))
                self._current = None
                self.changed.notify_all()

    def _next(self) -> PipeCall | None:
        with self.changed:
            self.changed.wait_for(lambda: self._queue or self._closing.is_set())
            self._current = self._queue.popleft() if self._queue else None
            return self._current

    def _close(self, process: ActorProcess) -> None:
        try:
            _, raised = process.ask("close", None, self._settings.grace_seconds)
            error = None if raised is None else self._remote_error("close", raised)
        except WorkerError as lost:
            error = lost
        self.close_error = error if self._was_idle else None

    def _wait_for_replacement(self, error: MazeError | None) -> float | None:
        """Fail what died with a process; returns how long to wait for the next one, None where there is none."""
        with self.changed:
            policy, n_before = self._settings.restart, self.restarts - self._forgiven
            is_last = self._closing.is_set() or n_before >= policy.max_restarts
            closed = WorkerError("the group of actors is closed", cause="closed")
            error = closed if error is None or self._closing.is_set() else error
            lost = [self._current] if self._current is not None else []
            if self.ready or is_last:  # calls made while it was replaced wait for the next one
                lost += self._queue
                self._queue.clear()
            self._current, self._process, self.ready = None, None, False
            if is_last:
                self.failure = error
            else:
                self.restarts += 1
            for call in lost:
                call.finish(None, error)
            self.changed.notify_all()
        return None if is_last else min(policy.backoff_cap_seconds, policy.backoff_seconds * 2.0 ** min(n_before, 60))

    def _remote_error(self, method: str, raised: RemoteError) -> MazeError:
        error = WorkerError(
            f"actor {self.index} (process {self.process_id}) raised {raised.type_name} in {method!r}: {raised.text}",
            remote_traceback=raised.traceback,
            actor_index=self.index,
            process_id=self.process_id,
            cause="raised",
        )
        if raised.original is not None:
            with contextlib.suppress(Exception):
                original = cloudpickle.loads(raised.original)
                original.__cause__ = error
                return original  # type: ignore[no-any-return]
        return error
