"""One actor of the subprocess pool as its caller sees it: its process, its calls, its replacements."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

import attrs

from maze_kernel.contracts.workers import RestartPolicy
from maze_kernel.errors import MazeError, WorkerError
from maze_processes import transport
from maze_processes.channel import Channel
from maze_processes.child import Descriptors
from maze_processes.stacks import ThreadStacks, how_it_ended
from maze_processes.supervision import SupervisorClient
from maze_runtime.workers.lifecycle import Lifecycle, RemoteCall, Stage

_EXIT_SECONDS = 5.0
_GLANCE_MILLISECONDS = 50


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


class ActorHandle:
    """The caller's side of one actor.

    Attributes:
        life: its stages and calls.
        channel: to its process, None where there is none.
    """

    def __init__(
        self,
        index: int,
        supervisor: SupervisorClient,
        settings: GroupSettings,
        build_frame: transport.Parts,
        shared: tuple[int, int],
        pump: Callable[[list[RemoteCall], float | None], None],
    ) -> None:
        self.index = index
        self.title = f"actor {index}"
        self.life = Lifecycle(settings.restart)
        self.channel: Channel | None = None
        self.pump = pump
        self._supervisor = supervisor
        self._settings = settings
        self._build_frame = build_frame
        self._setup: list[transport.Parts] = []
        self._shared = shared
        self._stacks = ThreadStacks()
        self._worker = -1

    @property
    def process_id(self) -> int | None:
        return self._supervisor.process_ids.get(self._worker)

    @property
    def exited(self) -> bool:
        """The process is known to have ended, but its end has not been dealt with yet."""
        return self.channel is not None and self._worker in self._supervisor.exit_codes

    def start(self) -> None:
        """Start a process and send it what to build."""
        stacks = self._stacks.open()
        ours, theirs = socket.socketpair()
        with theirs:
            self._worker = self._supervisor.start(Descriptors(theirs.fileno(), *self._shared, stacks))
        self.channel = Channel(ours)
        self.life.stage = Stage.BUILDING
        self._transmit(RemoteCall(self, "its constructor", self._build_frame, self._settings.build_timeout_seconds))

    def submit(self, method: str, frame: transport.Parts, timeout_seconds: float | None) -> RemoteCall:
        """Queue a call."""
        call = RemoteCall(self, method, frame, timeout_seconds)
        if self.life.stage is Stage.READY:
            self._transmit(call)
        else:
            self.life.hold(call)
        return call

    def set_up(self, method: str, frame: transport.Parts) -> RemoteCall:
        """Queue a call that every replacement gets again, before all others."""
        call = self.submit(method, frame, self._settings.timeout_seconds)
        self._setup.append(frame)
        return call

    def wait_for(self, call: RemoteCall, timeout_seconds: float | None) -> None:
        """See `CalledActor.wait_for`; first a glance at this actor alone: the usual case."""
        if timeout_seconds is None:
            self._glance()
        if not call.finished:
            self.pump([call], timeout_seconds)

    def read(self) -> None:
        """Take in every answer that has arrived; deal with the end of the process if that is what arrived."""
        while (channel := self.channel) is not None:
            try:
                frames = channel.receive()
            except (BlockingIOError, InterruptedError):
                return
            except (EOFError, OSError):
                self._ended()
                return
            for kind, _, body, buffers in frames:
                self._answered(kind, body, buffers)
            if channel.is_drained:
                return

    def tick(self, now: float) -> None:
        """Replace the process if it is time to; end it if its deadline has passed."""
        life = self.life
        if life.stage is Stage.WAITING and now >= life.due:
            self.start()
        elif self.exited:
            self.read()
            if self.exited:
                self._ended()
        elif life.deadline is not None and now >= life.deadline:
            self._expired()

    def stop(self) -> int | None:
        """Kill the process, if there is one, and let go of it; returns its exit code."""
        if self.channel is None:
            return None
        self._supervisor.kill(self._worker)
        code = self._supervisor.wait_exit(self._worker, _EXIT_SECONDS)
        self._release()
        return code

    def _glance(self) -> None:
        """Wait a little for an answer of this actor."""
        while (channel := self.channel) is not None and not channel.wants_to_write:
            if not channel.has_arrived(_GLANCE_MILLISECONDS):
                return
            self.read()
            if not channel.is_midway:
                return

    def _transmit(self, call: RemoteCall) -> None:
        assert self.channel is not None
        self.life.send(call)
        self.channel.send(call.payload)

    def _answered(self, kind: int, body: bytes | memoryview, buffers: Sequence[memoryview]) -> None:
        call = self.life.receive()
        if kind == transport.RAISED:
            call.finish(error=self._remote_error(call, body))
        else:
            call.finish(transport.decode(body, buffers) if kind == transport.VALUE else None)
        if self.life.stage is Stage.BUILDING:
            self._built(call.error)

    def _built(self, error: MazeError | None) -> None:
        if error is not None:
            self.stop()
            self.life.die(error)
            return
        self.life.stage = Stage.READY
        for frame in self._setup:
            self._transmit(RemoteCall(self, "attach_arrays", frame, self._settings.timeout_seconds))
        while self.life.unsent:
            self._transmit(self.life.unsent.popleft())

    def _ended(self) -> None:
        worker = self._worker
        code = self._supervisor.wait_exit(worker, _EXIT_SECONDS)
        stack = self._stacks.text()
        process = self.process_id
        if code is None:
            self._supervisor.kill(worker)
            code = self._supervisor.wait_exit(worker, _EXIT_SECONDS)
        self._release()
        during = f" during {self.life.sent[0].method!r}" if self.life.sent else ""
        error = WorkerError(
            f"{self.title} (process {process}) {how_it_ended(code)}{during}",
            remote_traceback=stack or None,
            actor_index=self.index,
            process_id=process,
            cause="killed" if code is not None and code < 0 else "exited",
            process_exit_code=code,
            help=self._after_a_death() if not stack else None,
        )
        self.life.die(error)

    def _after_a_death(self) -> str:
        more = "its standard error above may say more"
        if self._settings.restart.max_restarts:
            return more
        tables = '[workers], or [vector] of mode "subprocess"'
        return f"{more}; max_restarts above 0 ({tables}) replaces a worker that dies"

    def _expired(self) -> None:
        call = self.life.sent[0]
        process = self.process_id
        deadline = "build_timeout_seconds" if self.life.stage is Stage.BUILDING else "the timeout"
        self._supervisor.dump(self._worker)
        stack = self._stacks.wait()
        code = self.stop()
        error = WorkerError(
            f"{self.title} (process {process}) did not answer {call.method!r} "
            f"within {call.timeout_seconds:g} s and was killed",
            remote_traceback=stack or None,
            actor_index=self.index,
            process_id=process,
            cause="timeout",
            process_exit_code=code,
            help=f"raise {deadline} if this is how long it takes",
        )
        self.life.die(error)

    def _release(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None
            self._stacks.close()

    def _remote_error(self, call: RemoteCall, body: bytes | memoryview) -> MazeError:
        name, message, text, shipped = transport.decode(body)
        error = WorkerError(
            f"{self.title} (process {self.process_id}) raised {name} in {call.method!r}: {message}",
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
