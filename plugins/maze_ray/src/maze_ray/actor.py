"""One actor on the cluster as its caller sees it: its queue of calls, its deadline, its replacements."""

from __future__ import annotations

import contextlib
import enum
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
import cloudpickle  # type: ignore[import-untyped]
import ray
import ray.exceptions

from maze_kernel.contracts.workers import RestartPolicy
from maze_kernel.errors import MazeError, WorkerError
from maze_ray.deaths import Death, classify
from maze_ray.host import Answer, Host, HostSpec
from maze_ray.messages import EXITED, RAISED, Raised, owned, unpack

_STACK_SECONDS = 1.0
_CONSTRUCTOR = "its constructor"


class Stage(enum.Enum):
    """Of an actor: being built, serving, waiting for its replacement, gone for good."""

    BUILDING = enum.auto()
    READY = enum.auto()
    WAITING = enum.auto()
    FAILED = enum.auto()


@attrs.define
class LatestWeights:
    """What was broadcast last, as it travels: an array, or a reference to one."""

    payload: Any = None
    version: int = 0


@attrs.frozen(kw_only=True)
class RayGroupSettings:
    """What the actors of a group have in common.

    Attributes:
        options: for Ray: where to place an actor and what it reserves.
        factory, constants: references.
        weights: changes with each broadcast.
        pump: works until one of some calls is done.
    """

    spec: HostSpec
    options: dict[str, Any]
    factory: Any
    constants: Any
    board: Any
    restart: RestartPolicy
    timeout_seconds: float | None
    build_timeout_seconds: float | None
    weights: LatestWeights
    pump: Callable[[list[RayCall], float | None], None]


class RayCall:
    """A call and, once it is done, its answer or error; see `Future`."""

    def __init__(self, actor: RayActor, method: str, message: Any, timeout_seconds: float | None) -> None:
        self.actor = actor
        self.actor_index = actor.index
        self.method = method
        self.message = message
        self.timeout_seconds = timeout_seconds
        self.reference: Any = None
        self.finished = False
        self.value: Any = None
        self.error: MazeError | None = None

    def done(self) -> bool:
        """Whether there is an answer."""
        if not self.finished:
            self.actor.settings.pump([self], 0.0)
        return self.finished

    def result(self, timeout_seconds: float | None = None) -> Any:
        """See `Future.result`."""
        if not self.finished:
            self.actor.settings.pump([self], timeout_seconds)
        if not self.finished:
            raise WorkerError(
                f"{self.actor.title} has not answered {self.method!r} after {timeout_seconds:g} s; it is still at work",
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
        self.message = self.reference = None


class RayActor:
    """The caller's side of one actor.

    `sent` holds the calls that were put to Ray, oldest first: the first one is being answered. Calls made while the
    actor is built or replaced wait in `unsent`.

    Attributes:
        due: when a replacement is to be started.
        deadline: of the oldest call, None where it has none.
        failure: why there is no actor any more.
        process_id: None before it is built.
    """

    def __init__(self, index: int, settings: RayGroupSettings) -> None:
        self.index = index
        self.settings = settings
        self.stage = Stage.WAITING
        self.restarts = 0
        self.sent: deque[RayCall] = deque()
        self.unsent: deque[RayCall] = deque()
        self.failure: MazeError | None = None
        self.deadline: float | None = None
        self.due = 0.0
        self.closing = False
        self.process_id: int | None = None
        self._forgiven = 0
        self._handle: Any = None
        self._node = ("", "")
        self._version = 0

    @property
    def title(self) -> str:
        """Which actor, in which process of which node, for messages."""
        if self.process_id is None:
            return f"actor {self.index}"
        address, node_id = self._node
        return f"actor {self.index} (process {self.process_id} on node {address}, {node_id[:8]})"

    @property
    def pending(self) -> Any:
        """Ray's reference to the oldest answer that is missing, None where none is."""
        return self.sent[0].reference if self.sent else None

    def start(self) -> None:
        """Ask Ray for a process, and the process for its place and for the actor."""
        shared = self.settings
        self._version = 0
        self.process_id, self._node = None, ("", "")
        self._handle = ray.remote(Host).options(**shared.options).remote(self.index, shared.spec, shared.board)
        self.stage = Stage.BUILDING
        seconds = shared.build_timeout_seconds
        arguments = (shared.factory, shared.constants, seconds, time.time())
        place = RayCall(self, _CONSTRUCTOR, None, seconds)
        place.reference = self._handle.place.remote()
        build = RayCall(self, _CONSTRUCTOR, None, seconds)
        build.reference = self._handle.build.remote(*arguments)
        self.sent.extend((place, build))
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def submit(self, method: str, message: Any, timeout_seconds: float | None) -> RayCall:
        """Queue a call."""
        call = RayCall(self, method, message, timeout_seconds)
        if self.failure is not None:
            call.finish(error=self.failure)
        elif self.stage is Stage.READY:
            self._transmit(call)
        else:
            call.message = owned(message)  # it waits, and the caller may change its arrays meanwhile
            self.unsent.append(call)
        return call

    def close(self, timeout_seconds: float | None) -> RayCall:
        """Ask the actor to close, after all calls before."""
        call = RayCall(self, "close", None, timeout_seconds)
        self._put(call, self._handle.close.remote(timeout_seconds))
        return call

    def forgive(self) -> None:
        """The restarts so far count no more."""
        self._forgiven = self.restarts

    def receive(self) -> None:
        """Take in the oldest answer, which is there."""
        call = self.sent[0]
        try:
            answer = ray.get(call.reference)
        except ray.exceptions.RayError as error:
            self._failed(classify(error, self._node[1]), error)
            return
        if self.stage is Stage.BUILDING and self.process_id is None:
            self.process_id, *node = answer
            self._node = (node[0], node[1])
            self.sent.popleft()
            return
        self._answered(call, answer)

    def tick(self, now: float) -> None:
        """Replace the actor if it is time to; end it if its deadline has passed."""
        if self.stage is Stage.WAITING and now >= self.due:
            self.start()
        elif self.deadline is not None and now >= self.deadline:
            self._expired()

    def stop(self) -> None:
        """Kill the process, if there is one, and let go of it."""
        if self._handle is not None:
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray.kill(self._handle, no_restart=True)
            self._handle = None

    def abandon(self, error: MazeError) -> None:
        """No more answers: everything pending and every later call fails with `error`."""
        self.failure = error
        self.stage = Stage.FAILED
        self.deadline = None
        for call in (*self.sent, *self.unsent):
            call.finish(error=error)
        self.sent.clear()
        self.unsent.clear()

    def _transmit(self, call: RayCall) -> None:
        weights = self.settings.weights
        is_new = weights.version > self._version
        payload, version = (weights.payload, weights.version) if is_new else (None, 0)
        self._version = max(self._version, version)
        self._put(call, self._handle.call.remote(call.message, payload, version, call.timeout_seconds))

    def _put(self, call: RayCall, reference: Any) -> None:
        call.reference = reference
        self.sent.append(call)
        if len(self.sent) == 1 and call.timeout_seconds is not None:
            self.deadline = time.monotonic() + call.timeout_seconds

    def _answered(self, call: RayCall, answer: Answer) -> None:
        kind, packed = answer
        error: MazeError | None = None
        try:
            value = unpack(packed)
        except Exception as failure:
            # It holds an object of a class that this process cannot import.
            kind, value = RAISED, Raised(type(failure).__name__, f"its answer cannot be read here: {failure}", "")
        if kind == EXITED:
            self._failed(Death("exited", f"exited with code {value.exit_code}", value.traceback), None, value.exit_code)
            return
        if kind == RAISED:
            error, value = self._remote_error(call, value), None
        self._next(call, value, error)
        if self.stage is Stage.BUILDING:
            self._built(error)

    def _next(self, call: RayCall, value: Any, error: MazeError | None) -> None:
        self.sent.popleft()
        following = self.sent[0].timeout_seconds if self.sent else None
        self.deadline = None if following is None else time.monotonic() + following
        call.finish(value, error)

    def _built(self, error: MazeError | None) -> None:
        if error is not None:
            self.stop()
            self._died(error)
            return
        self.stage = Stage.READY
        while self.unsent:
            self._transmit(self.unsent.popleft())

    def _failed(self, death: Death, error: Exception | None, exit_code: int | None = None) -> None:
        """Ray has no answer, or the actor left of its own accord."""
        call = self.sent[0]
        failure = WorkerError(
            f"{self.title} {death.how} during {call.method!r}",
            remote_traceback=death.detail,
            actor_index=self.index,
            process_id=self.process_id,
            cause=death.cause,
            process_exit_code=exit_code,
            owner="maze-ray",
            help=death.help or self._after_a_death(),
        )
        failure.__cause__ = error
        if death.cause == "raised" and self.stage is Stage.READY:
            self._next(call, None, failure)
            return
        if death.cause == "lost" and self.process_id is None and self.deadline is not None and not self.closing:
            self._place_again(self.deadline)
            return
        self.stop()
        self._died(failure)

    def _place_again(self, deadline: float) -> None:
        """Its place was on a node that is gone, and it has not begun to be built: this costs no restart."""
        self.stop()
        self.sent.clear()
        self.start()
        self.deadline = deadline

    def _after_a_death(self) -> str | None:
        if self.settings.restart.max_restarts:
            return None
        return "what it printed above may say more; max_restarts above 0 replaces a worker that dies"

    def _expired(self) -> None:
        call = self.sent[0]
        placed = self.process_id is not None
        option = "build_timeout_seconds" if self.stage is Stage.BUILDING else "timeout_seconds"
        stacks = self._await_stacks() if placed else ""
        self.stop()
        self._died(
            WorkerError(
                f"{self.title} did not answer {call.method!r} within {call.timeout_seconds:g} s and was killed",
                received=None if placed else f"no process on the cluster, of which {_free()} is free",
                remote_traceback=stacks or None,
                actor_index=self.index,
                process_id=self.process_id,
                cause="timeout",
                owner="maze-ray",
                help=f"raise {option} if this is how long it takes",
            )
        )

    def _died(self, error: MazeError) -> None:
        self.deadline = None
        n_before = self.restarts - self._forgiven
        policy = self.settings.restart
        if self.closing or n_before >= policy.max_restarts:
            self.abandon(error)
            return
        for call in self.sent:
            call.finish(error=error)
        self.sent.clear()
        self.restarts += 1
        self.stage = Stage.WAITING
        wait = min(policy.backoff_cap_seconds, policy.backoff_seconds * 2.0 ** min(n_before, 60))
        self.due = time.monotonic() + wait

    def _remote_error(self, call: RayCall, raised: Raised) -> MazeError:
        error = WorkerError(
            f"{self.title} raised {raised.type_name} in {call.method!r}: {raised.text}",
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

    def _await_stacks(self) -> str:
        """What the actor's watchdog leaves on the board when the deadline passes there."""
        end = time.monotonic() + _STACK_SECONDS
        key = f"{self.settings.spec.group}/{self.index}/{self.process_id}"
        while (left := end - time.monotonic()) > 0:
            try:
                text: str = ray.get(self.settings.board.take_stacks.remote(key), timeout=left)
            except ray.exceptions.RayError:
                return ""
            if text:
                return text
            time.sleep(0.03)
        return ""


def _free() -> str:
    try:
        resources = ray.available_resources()
    except Exception:
        return "nobody knows what"
    return ", ".join(f"{resources.get(name, 0.0):g} {name}" for name in ("CPU", "GPU"))
