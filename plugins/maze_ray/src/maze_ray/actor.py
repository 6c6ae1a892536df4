"""One actor on the cluster as its caller sees it: its place, its calls, its replacements."""

from __future__ import annotations

import contextlib
import time
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
from maze_runtime.workers.lifecycle import Lifecycle, RemoteCall, Stage

_STACK_SECONDS = 1.0
_CONSTRUCTOR = "its constructor"


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
    pump: Callable[[list[RemoteCall], float | None], None]


class RayActor:
    """The caller's side of one actor.

    Attributes:
        life: its stages and calls.
        process_id: None before it is built.
    """

    def __init__(self, index: int, settings: RayGroupSettings) -> None:
        self.index = index
        self.settings = settings
        self.life = Lifecycle(settings.restart)
        self.process_id: int | None = None
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
        return self.life.sent[0].payload if self.life.sent else None

    def start(self) -> None:
        """Ask Ray for a process, and the process for its place and for the actor."""
        shared = self.settings
        self._version = 0
        self.process_id, self._node = None, ("", "")
        self._handle = ray.remote(Host).options(**shared.options).remote(self.index, shared.spec, shared.board)
        self.life.stage = Stage.BUILDING
        seconds = shared.build_timeout_seconds
        arguments = (shared.factory, shared.constants, seconds, time.time())
        place = RemoteCall(self, _CONSTRUCTOR, self._handle.place.remote(), seconds)
        build = RemoteCall(self, _CONSTRUCTOR, self._handle.build.remote(*arguments), seconds)
        self.life.sent.extend((place, build))
        self.life.deadline = None if seconds is None else time.monotonic() + seconds

    def submit(self, method: str, message: Any, timeout_seconds: float | None) -> RemoteCall:
        """Queue a call."""
        call = RemoteCall(self, method, message, timeout_seconds)
        if self.life.stage is Stage.READY:
            self._transmit(call)
        else:
            call.payload = owned(message)  # it waits, and the caller may change its arrays meanwhile
            self.life.hold(call)
        return call

    def close(self, timeout_seconds: float | None) -> RemoteCall:
        """Ask the actor to close, after all calls before."""
        call = RemoteCall(self, "close", self._handle.close.remote(timeout_seconds), timeout_seconds)
        self.life.send(call)
        return call

    def wait_for(self, call: RemoteCall, timeout_seconds: float | None) -> None:
        """See `CalledActor.wait_for`."""
        self.settings.pump([call], timeout_seconds)

    def receive(self) -> None:
        """Take in the oldest answer, which is there."""
        call = self.life.sent[0]
        try:
            answer = ray.get(call.payload)
        except ray.exceptions.RayError as error:
            self._failed(classify(error, self._node[1]), error)
            return
        if self.life.stage is Stage.BUILDING and self.process_id is None:
            self.process_id, *node = answer
            self._node = (node[0], node[1])
            self.life.sent.popleft()
            return
        self._answered(call, answer)

    def tick(self, now: float) -> None:
        """Replace the actor if it is time to; end it if its deadline has passed."""
        if self.life.stage is Stage.WAITING and now >= self.life.due:
            self.start()
        elif self.life.deadline is not None and now >= self.life.deadline:
            self._expired()

    def stop(self) -> None:
        """Kill the process, if there is one, and let go of it."""
        if self._handle is not None:
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray.kill(self._handle, no_restart=True)
            self._handle = None

    def _transmit(self, call: RemoteCall) -> None:
        weights = self.settings.weights
        is_new = weights.version > self._version
        payload, version = (weights.payload, weights.version) if is_new else (None, 0)
        self._version = max(self._version, version)
        call.payload = self._handle.call.remote(call.payload, payload, version, call.timeout_seconds)
        self.life.send(call)

    def _answered(self, call: RemoteCall, answer: Answer) -> None:
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
        self.life.receive().finish(value, error)
        if self.life.stage is Stage.BUILDING:
            self._built(error)

    def _built(self, error: MazeError | None) -> None:
        if error is not None:
            self.stop()
            self.life.die(error)
            return
        self.life.stage = Stage.READY
        while self.life.unsent:
            self._transmit(self.life.unsent.popleft())

    def _failed(self, death: Death, error: Exception | None, exit_code: int | None = None) -> None:
        """Ray has no answer, or the actor left of its own accord."""
        life, call = self.life, self.life.sent[0]
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
        if death.cause == "raised" and life.stage is Stage.READY:
            life.receive().finish(error=failure)
            return
        if death.cause == "lost" and self.process_id is None and life.deadline is not None and not life.closing:
            self._place_again(life.deadline)
            return
        self.stop()
        life.die(failure)

    def _place_again(self, deadline: float) -> None:
        """Its place was on a node that is gone, and it has not begun to be built: this costs no restart."""
        self.stop()
        self.life.sent.clear()
        self.start()
        self.life.deadline = deadline

    def _after_a_death(self) -> str | None:
        if self.settings.restart.max_restarts:
            return None
        return "what it printed above may say more; max_restarts above 0 ([workers]) replaces a worker that dies"

    def _expired(self) -> None:
        call = self.life.sent[0]
        placed = self.process_id is not None
        option = "build_timeout_seconds" if self.life.stage is Stage.BUILDING else "timeout_seconds"
        stacks = self._await_stacks() if placed else ""
        self.stop()
        self.life.die(
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

    def _remote_error(self, call: RemoteCall, raised: Raised) -> MazeError:
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
