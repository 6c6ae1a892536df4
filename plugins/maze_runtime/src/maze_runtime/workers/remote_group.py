"""What groups of actors in other processes do alike, whatever carries their calls: wait, replace, close."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from maze_kernel.contracts.workers import Future
from maze_kernel.errors import WorkerError
from maze_runtime.workers.lifecycle import CalledActor, Lifecycle, RemoteCall, Stage

_HEARTBEAT_SECONDS = 1.0


class RemoteActor(CalledActor, Protocol):
    """The caller's side of an actor."""

    @property
    def life(self) -> Lifecycle: ...

    def tick(self, now: float) -> None:
        """Start or replace the process if it is time to; end it if its deadline has passed."""
        ...

    def stop(self) -> object:
        """Kill the process, if there is one."""
        ...


AnyActor = TypeVar("AnyActor", bound=RemoteActor)


class RemoteGroup(ABC, Generic[AnyActor]):
    """A part of `ActorGroup`: a pool's own group sends calls and weights, and has the one place that waits.

    Args:
        timeout_seconds: deadline of a call that is given none.
        grace_seconds: time an actor has to close.

    Attributes:
        closed: no more calls.
    """

    def __init__(self, timeout_seconds: float | None, grace_seconds: float) -> None:
        self.closed = False
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._actors: list[AnyActor] = []

    @abstractmethod
    def kill(self) -> None:
        """Stop every actor now."""

    @abstractmethod
    def _turn(self, timeout_seconds: float | None) -> None:
        """Wait for the next event of any actor, no longer than the timeout, and deal with it."""

    @abstractmethod
    def _ask_to_close(self, actor: AnyActor, timeout_seconds: float | None) -> RemoteCall:
        """Call `close` of an actor, after all calls before."""

    def build(self) -> None:
        """Start every actor and wait until each is built or can no longer be."""
        now = time.monotonic()
        for actor in self._actors:
            actor.tick(now)
        while any(actor.life.stage is not Stage.READY or actor.process_id is None for actor in self._actors):
            self._turn(None)
            for actor in self._actors:
                if actor.life.failure is not None:
                    raise actor.life.failure

    def wait_any(self, futures: Sequence[Future], timeout_seconds: float | None = None) -> list[Future]:
        """See `ActorGroup.wait_any`."""
        calls: list[RemoteCall] = list(futures)  # type: ignore[arg-type]
        self._pump(calls, timeout_seconds)
        return [call for call in calls if call.finished]

    def restarts(self, actor_index: int) -> int:
        """How often this actor was replaced."""
        return self._actors[actor_index].life.restarts

    def forgive(self, actor_index: int) -> None:
        """See `ActorGroup.forgive`."""
        self._actors[actor_index].life.forgive()

    def process_id(self, actor_index: int) -> int | None:
        """The process of an actor, on its machine."""
        return self._actors[actor_index].process_id

    def close(self) -> None:
        """See `ActorGroup.close`."""
        if self.closed:
            return
        self.closed = True
        for actor in self._actors:
            actor.life.closing = True
        ready = [actor for actor in self._actors if actor.life.stage is Stage.READY]
        # An actor at work when nobody wants its answer any more may be killed without a word.
        busy = [self._ask_to_close(actor, None) for actor in ready if actor.life.sent]
        idle = [self._ask_to_close(actor, self._grace_seconds) for actor in ready if not actor.life.sent]
        deadline = time.monotonic() + self._grace_seconds
        try:
            while not all(call.finished for call in idle):
                self._turn(None)
            while not all(call.finished for call in busy) and time.monotonic() < deadline:
                self._turn(deadline - time.monotonic())
        finally:
            self.kill()
        for call in idle:
            if call.error is not None:
                raise call.error

    def _abandon(self) -> None:
        """Stop every actor; all pending calls and all to come fail."""
        self.closed = True
        gone = _closed()
        for actor in self._actors:
            actor.stop()
            actor.life.abandon(gone)

    def _check_open(self) -> None:
        if self.closed:
            raise _closed()

    def _deadline(self, timeout_seconds: float | None) -> float | None:
        """Of a call, in seconds."""
        return self._timeout_seconds if timeout_seconds is None else timeout_seconds

    def _pump(self, calls: Sequence[RemoteCall], timeout_seconds: float | None) -> None:
        """Work until one of `calls` is done or the time is up."""
        limit = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while calls and not any(call.finished for call in calls):
            remaining = None if limit is None else limit - time.monotonic()
            self._turn(remaining)
            if remaining is not None and remaining <= 0:
                return

    def _seconds_to_next(self, timeout_seconds: float | None) -> float:
        """Until a deadline or a replacement's start, no longer than the timeout or a heartbeat; may be negative."""
        now = time.monotonic()
        wake = _HEARTBEAT_SECONDS if timeout_seconds is None else min(timeout_seconds, _HEARTBEAT_SECONDS)
        for actor in self._actors:
            life = actor.life
            if life.deadline is not None:
                wake = min(wake, life.deadline - now)
            if life.stage is Stage.WAITING:
                wake = min(wake, life.due - now)
        return wake


def _closed() -> WorkerError:
    return WorkerError("the group of actors is closed", cause="closed")
