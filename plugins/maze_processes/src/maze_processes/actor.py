"""One actor of the subprocess pool as its caller sees it: its process, its queue of calls, its replacements."""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
import re
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from maze_kernel.contracts.workers import RestartPolicy
from maze_kernel.errors import MazeError, WorkerError
from maze_processes import transport
from maze_processes.child import Descriptors
from maze_processes.shared_memory import create_descriptor
from maze_processes.supervision import SupervisorClient

_STACK_SECONDS = 1.0
_EXIT_SECONDS = 5.0
_GLANCE_MILLISECONDS = 50
_PLUMBING = re.compile(rf"{re.escape(os.path.dirname(__file__))}|File \"<string>\"|^Extension modules:")


class State(enum.Enum):
    """Of an actor: being built, serving, waiting for its replacement, gone for good."""

    BUILDING = enum.auto()
    READY = enum.auto()
    WAITING = enum.auto()
    FAILED = enum.auto()


@attrs.frozen(kw_only=True)
class GroupSettings:
    """What the actors of a group have in common."""

    factory: bytes
    n_actors: int
    restart: RestartPolicy
    timeout_seconds: float | None
    """Of a call that is given none."""
    build_timeout_seconds: float | None
    grace_seconds: float
    torch_threads: int
    newest_weights: bool


class Call:
    """A call and, once it is done, its answer or error."""

    __slots__ = ("actor", "actor_index", "error", "finished", "frame", "method", "timeout_seconds", "value", "wait")

    def __init__(self, actor: ActorHandle, method: str, frame: transport.Parts, timeout_seconds: float | None) -> None:
        self.actor = actor
        self.actor_index = actor.index
        self.method = method
        self.frame = frame
        self.timeout_seconds = timeout_seconds
        self.finished = False
        self.value: Any = None
        self.error: MazeError | None = None

    def done(self) -> bool:
        if not self.finished:
            self.actor.pump([self], 0.0)
        return self.finished

    def result(self, timeout_seconds: float | None = None) -> Any:
        """See `Future.result`."""
        if not self.finished and timeout_seconds is None:
            self.actor.await_answer()
        if not self.finished:
            self.actor.pump([self], timeout_seconds)
            if not self.finished:
                raise WorkerError(
                    f"actor {self.actor_index} has not answered {self.method!r} after {timeout_seconds:g} s; "
                    "it is still at work",
                    actor_index=self.actor_index,
                    process_id=self.actor.process_id,
                    cause="timeout",
                )
        if self.error is not None:
            raise self.error
        return self.value

    def finish(self, value: Any = None, error: MazeError | None = None) -> None:
        self.value = value
        self.error = error
        self.finished = True
        self.frame = ()


class ActorHandle:
    """The caller's side of one actor.

    `sent` holds the calls the process knows of, oldest first: the first one is being answered. Calls made while
    the actor is built or replaced wait in `unsent`.
    """

    def __init__(
        self,
        index: int,
        supervisor: SupervisorClient,
        settings: GroupSettings,
        build_frame: transport.Parts,
        shared: tuple[int, int],
        pump: Callable[[list[Call], float | None], None],
    ) -> None:
        self.index = index
        self.state = State.WAITING
        self.restarts = 0
        self._forgiven = 0
        self.closing = False
        self.sent: deque[Call] = deque()
        self.unsent: deque[Call] = deque()
        self.failure: MazeError | None = None
        self.deadline: float | None = None
        self.due = 0.0
        self.connection: socket.socket | None = None
        self._poll: select.poll | None = None
        self.pump = pump
        self._supervisor = supervisor
        self._settings = settings
        self._build_frame = build_frame
        self._setup: list[transport.Parts] = []
        self._shared = shared
        self._dump = -1
        self._worker = -1
        self._reader = transport.FrameReader()
        self._outgoing: deque[bytes | memoryview] = deque()

    @property
    def process_id(self) -> int | None:
        return self._supervisor.process_ids.get(self._worker)

    @property
    def exited(self) -> bool:
        """The process is known to have ended, but its end has not been dealt with yet."""
        return self.connection is not None and self._worker in self._supervisor.exit_codes

    @property
    def wants_to_write(self) -> bool:
        return bool(self._outgoing)

    def start(self) -> None:
        """Start a process and send it what to build."""
        self._dump = create_descriptor("maze-stacks")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._worker = self._supervisor.start(Descriptors(theirs.fileno(), *self._shared, self._dump))
        self.connection = ours
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._reader = transport.FrameReader()
        self._outgoing.clear()
        self.state = State.BUILDING
        self._transmit(Call(self, "its constructor", self._build_frame, self._settings.build_timeout_seconds))

    def submit(self, method: str, frame: transport.Parts, timeout_seconds: float | None) -> Call:
        """Queue a call."""
        call = Call(self, method, frame, timeout_seconds)
        if self.state is State.READY:
            self._transmit(call)
        elif self.failure is not None:
            call.finish(error=self.failure)
        else:
            self.unsent.append(call)
        return call

    def set_up(self, method: str, frame: transport.Parts) -> Call:
        """Queue a call that every replacement gets again, before all others."""
        call = self.submit(method, frame, self._settings.timeout_seconds)
        self._setup.append(frame)
        return call

    def read(self) -> None:
        """Take in every answer that has arrived; deal with the end of the process if that is what arrived."""
        while self.connection is not None:
            try:
                frames = self._reader.receive(self.connection)
            except (BlockingIOError, InterruptedError):
                return
            except (EOFError, OSError):
                self._ended()
                return
            for kind, _, body, buffers in frames:
                self._answered(kind, body, buffers)
            if self._reader.is_drained:
                return

    def await_answer(self) -> None:
        """Wait a little for an answer of this actor alone: the usual case, without a look at the others."""
        while self._poll is not None and not self._outgoing and self._poll.poll(_GLANCE_MILLISECONDS):
            self.read()
            if not self._reader.is_midway:
                return

    def write(self) -> None:
        """Send as much of what is queued as the process takes."""
        while self.connection is not None and self._outgoing:
            try:
                if len(self._outgoing) == 1:
                    n_sent = self.connection.send(self._outgoing[0])
                else:
                    n_sent = self.connection.sendmsg(itertools.islice(self._outgoing, transport.MAX_PARTS))
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The read side reports the end, with everything that was answered before it.
                self._outgoing.clear()
                return
            while self._outgoing and n_sent >= len(self._outgoing[0]):
                n_sent -= len(self._outgoing.popleft())
            if n_sent:
                self._outgoing[0] = memoryview(self._outgoing[0])[n_sent:]

    def forgive(self) -> None:
        """The restarts so far count no more."""
        self._forgiven = self.restarts

    def tick(self, now: float) -> None:
        """Replace the process if it is time to; end it if its deadline has passed."""
        if self.state is State.WAITING and now >= self.due:
            self.start()
        elif self.exited:
            self.read()
            if self.exited:
                self._ended()
        elif self.deadline is not None and now >= self.deadline:
            self._expired()

    def stop(self) -> int | None:
        """Kill the process, if there is one, and let go of it; returns its exit code."""
        if self.connection is None:
            return None
        self._supervisor.kill(self._worker)
        code = self._supervisor.wait_exit(self._worker, _EXIT_SECONDS)
        self._release()
        return code

    def abandon(self, error: MazeError) -> None:
        """No more answers: everything pending and every later call fails with `error`."""
        self.failure = error
        self.state = State.FAILED
        self.deadline = None
        for call in (*self.sent, *self.unsent):
            call.finish(error=error)
        self.sent.clear()
        self.unsent.clear()

    def _transmit(self, call: Call) -> None:
        self.sent.append(call)
        if len(self.sent) == 1 and call.timeout_seconds is not None:
            self.deadline = time.monotonic() + call.timeout_seconds
        is_free = not self._outgoing
        self._outgoing.extend(call.frame)
        if is_free:
            self.write()

    def _answered(self, kind: int, body: bytes | memoryview, buffers: Sequence[memoryview]) -> None:
        call = self.sent.popleft()
        following = self.sent[0].timeout_seconds if self.sent else None
        self.deadline = None if following is None else time.monotonic() + following
        if kind == transport.RAISED:
            call.finish(error=self._remote_error(call, body))
        else:
            call.finish(transport.decode(body, buffers) if kind == transport.VALUE else None)
        if self.state is State.BUILDING:
            self._built(call.error)

    def _built(self, error: MazeError | None) -> None:
        if error is not None:
            self.stop()
            self._died(error)
            return
        self.state = State.READY
        for frame in self._setup:
            self._transmit(Call(self, "attach_arrays", frame, self._settings.timeout_seconds))
        while self.unsent:
            self._transmit(self.unsent.popleft())

    def _ended(self) -> None:
        worker = self._worker
        code = self._supervisor.wait_exit(worker, _EXIT_SECONDS)
        stack = self._stack()
        process = self.process_id
        if code is None:
            self._supervisor.kill(worker)
            code = self._supervisor.wait_exit(worker, _EXIT_SECONDS)
        self._release()
        during = f" during {self.sent[0].method!r}" if self.sent else ""
        error = WorkerError(
            f"actor {self.index} (process {process}) {_how_it_ended(code)}{during}",
            remote_traceback=stack or None,
            actor_index=self.index,
            process_id=process,
            cause="killed" if code is not None and code < 0 else "exited",
            process_exit_code=code,
            help=self._after_a_death() if not stack else None,
        )
        self._died(error)

    def _after_a_death(self) -> str:
        replaced = "" if self._settings.restart.max_restarts else "; max_restarts above 0 replaces a worker that dies"
        return f"its standard error above may say more{replaced}"

    def _expired(self) -> None:
        call = self.sent[0]
        process = self.process_id
        deadline = "build_timeout_seconds" if self.state is State.BUILDING else "the timeout"
        self._supervisor.dump(self._worker)
        stack = self._await_stack()
        code = self.stop()
        error = WorkerError(
            f"actor {self.index} (process {process}) did not answer {call.method!r} "
            f"within {call.timeout_seconds:g} s and was killed",
            remote_traceback=stack or None,
            actor_index=self.index,
            process_id=process,
            cause="timeout",
            process_exit_code=code,
            help=f"raise {deadline} if this is how long it takes",
        )
        self._died(error)

    def _died(self, error: MazeError) -> None:
        self.deadline = None
        policy, n_before = self._settings.restart, self.restarts - self._forgiven
        if self.closing or n_before >= policy.max_restarts:
            self.abandon(error)
            return
        for call in self.sent:
            call.finish(error=error)
        self.sent.clear()
        wait = min(policy.backoff_cap_seconds, policy.backoff_seconds * 2.0 ** min(n_before, 60))
        self.restarts += 1
        self.state = State.WAITING
        self.due = time.monotonic() + wait

    def _release(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            self._poll = None
            os.close(self._dump)
            self._dump = -1
        self._outgoing.clear()

    def _remote_error(self, call: Call, body: bytes | memoryview) -> MazeError:
        name, message, text, shipped = transport.decode(body)
        error = WorkerError(
            f"actor {self.index} (process {self.process_id}) raised {name} in {call.method!r}: {message}",
            remote_traceback=text,
            actor_index=self.index,
            process_id=self.process_id,
            cause="raised",
        )
        if shipped is not None:
            with contextlib.suppress(Exception):
                original = transport.decode(shipped)
                original.__cause__ = error
                return original  # type: ignore[no-any-return]
        return error

    def _stack(self) -> str:
        size = os.fstat(self._dump).st_size
        text = os.pread(self._dump, min(size, 100_000), 0).decode(errors="replace")
        return "\n".join(line for line in text.splitlines() if not _PLUMBING.search(line)).strip()

    def _await_stack(self) -> str:
        text = ""
        end = time.monotonic() + _STACK_SECONDS
        while time.monotonic() < end:
            time.sleep(0.03)
            previous, text = text, self._stack()
            if text and text == previous:
                break
        return text


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "ended without a trace"
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
