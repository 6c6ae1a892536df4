"""Calls of an actor in another process, and when a dead one is replaced; whatever carries the calls there.

A pool has a class of its own for the caller's side of an actor: it sends and receives, and keeps a `Lifecycle`.
"""

from __future__ import annotations

import enum
import time
import warnings
from collections import deque
from typing import Any, Protocol

from maze_kernel.contracts.workers import RestartPolicy
from maze_kernel.errors import MazeError, MazeWarning, WorkerError


class Stage(enum.Enum):
    """Of an actor: being built, serving, waiting for its replacement, gone for good."""

    BUILDING = enum.auto()
    READY = enum.auto()
    WAITING = enum.auto()
    FAILED = enum.auto()


class CalledActor(Protocol):
    """Whose answers calls wait for."""

    index: int

    @property
    def title(self) -> str:
        """Which actor, for messages."""
        ...

    @property
    def process_id(self) -> int | None: ...

    def wait_for(self, call: RemoteCall, timeout_seconds: float | None) -> None:
        """Work until the call is done or the time is up."""
        ...


class RemoteCall:
    """A call and, once it is done, its answer or error; see `Future`.

    Attributes:
        payload: what is sent, or what the carrier knows it by when it is; None once the call is done.
        timeout_seconds: how long the actor may take, from when it has answered all calls before.
    """

    __slots__ = ("actor", "actor_index", "error", "finished", "method", "payload", "timeout_seconds", "value")

    def __init__(self, actor: CalledActor, method: str, payload: Any, timeout_seconds: float | None) -> None:
        self.actor = actor
        self.actor_index = actor.index
        self.method = method
        self.payload = payload
        self.timeout_seconds = timeout_seconds
        self.finished = False
        self.value: Any = None
        self.error: MazeError | None = None

    def done(self) -> bool:
        """Whether there is an answer."""
        if not self.finished:
            self.actor.wait_for(self, 0.0)
        return self.finished

    def result(self, timeout_seconds: float | None = None) -> Any:
        """See `Future.result`."""
        if not self.finished:
            self.actor.wait_for(self, timeout_seconds)
            if not self.finished:
                raise WorkerError(
                    f"{self.actor.title} has not answered {self.method!r} after {timeout_seconds:g} s; "
                    "it is still at work",
                    actor_index=self.actor_index,
                    process_id=self.actor.process_id,
                    cause="timeout",
                )
        if self.error is not None:
            raise self.error
        return self.value

    def finish(self, value: Any = None, error: MazeError | None = None) -> None:
        """Say what came of it."""
        self.value, self.error, self.finished = value, error, True
        self.payload = None


class Lifecycle:
    """The stages of an actor, and its calls that are not done.

    Args:
        policy: when a dead actor is replaced.

    Attributes:
        stage: waiting at first, to be started at once.
        restarts: how often the actor was replaced.
        sent: calls the process knows of, oldest first: the first one is being answered.
        unsent: calls made while the actor is built or replaced.
        failure: why there is no actor any more.
        deadline: of the oldest call that was sent, None where it has none.
        due: when a replacement is to be started.
        closing: the actor is not replaced any more.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self.stage = Stage.WAITING
        self.restarts = 0
        self.sent: deque[RemoteCall] = deque()
        self.unsent: deque[RemoteCall] = deque()
        self.failure: MazeError | None = None
        self.deadline: float | None = None
        self.due = 0.0
        self.closing = False
        self._policy = policy
        self._forgiven = 0

    def hold(self, call: RemoteCall) -> None:
        """A call is made of an actor that is not ready: it waits, or fails if there will be none."""
        if self.failure is not None:
            call.finish(error=self.failure)
        else:
            self.unsent.append(call)

    def send(self, call: RemoteCall) -> None:
        """A call goes to the process."""
        self.sent.append(call)
        if len(self.sent) == 1 and call.timeout_seconds is not None:
            self.deadline = time.monotonic() + call.timeout_seconds

    def receive(self) -> RemoteCall:
        """The oldest call has an answer; the next one's time begins."""
        call = self.sent.popleft()
        following = self.sent[0].timeout_seconds if self.sent else None
        self.deadline = None if following is None else time.monotonic() + following
        return call

    def forgive(self) -> None:
        """The restarts so far count no more."""
        self._forgiven = self.restarts

    def die(self, error: MazeError) -> None:
        """The process is gone: the calls it knew of fail, the others wait for its replacement if there will be one.

        Who made the calls says what follows from it; where it had none, a `MazeWarning` says that it was replaced.
        """
        self.deadline = None
        policy, n_before = self._policy, self.restarts - self._forgiven
        if self.closing or n_before >= policy.max_restarts:
            self.abandon(error)
            return
        nobody_knows = self.stage is Stage.READY and not self.sent
        for call in self.sent:
            call.finish(error=error)
        self.sent.clear()
        wait = min(policy.backoff_cap_seconds, policy.backoff_seconds * 2.0 ** min(n_before, 60))
        self.restarts += 1
        self.stage = Stage.WAITING
        self.due = time.monotonic() + wait
        if nobody_knows:
            warnings.warn(f"{error.what} and is replaced", MazeWarning, stacklevel=2)

    def abandon(self, error: MazeError) -> None:
        """No more answers: everything pending and every later call fails with `error`."""
        self.failure = error
        self.stage = Stage.FAILED
        self.deadline = None
        for call in (*self.sent, *self.unsent):
            call.finish(error=error)
        self.sent.clear()
        self.unsent.clear()
