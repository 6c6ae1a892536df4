"""One process of the pool "acme-pipes" as its caller sees it: started, asked, and stopped in whatever way it takes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from maze_acme.pipe_worker import STARTED, Message, RemoteError, serve
from maze_kernel.contracts.workers import ActorContext
from maze_kernel.errors import WorkerError

_START_SECONDS = 120.0
_STACK_SECONDS = 1.0
_EXIT_SECONDS = 5.0
_CONSTRUCTOR = "its constructor"
_SPAWN = multiprocessing.get_context("spawn")


class ActorProcess:
    """A process that builds an actor and answers its calls; one thread at a time asks it.

    Args:
        factory: of the actor, encoded.
        context: of the actor; constants travel by value.
        torch_threads: of each operation in the process.

    Raises:
        Exception: no process can be started, by a process of a pool for one.
    """

    def __init__(self, factory: bytes, context: ActorContext, torch_threads: int) -> None:
        self.index = context.index
        descriptor, name = tempfile.mkstemp(prefix="maze-acme-stacks-")
        os.close(descriptor)
        self._stacks = Path(name)
        self._connection, theirs = _SPAWN.Pipe()
        arguments = (theirs, factory, context, name, torch_threads)
        self._process = _SPAWN.Process(target=serve, args=arguments, daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._connection.close()
            self._stacks.unlink()
            raise
        finally:
            theirs.close()
        self.process_id: int | None = self._process.pid

    def build(self, timeout_seconds: float | None) -> RemoteError | None:
        """Wait for the actor; returns what its constructor raised.

        Raises:
            WorkerError: the process died or its time is up.
        """
        started = self._receive("its start", _START_SECONDS)
        assert started == STARTED
        _, error = cloudpickle.loads(self._receive(_CONSTRUCTOR, timeout_seconds))
        return error  # type: ignore[no-any-return]

    def ask(
        self, method: str, message: Message | None, timeout_seconds: float | None
    ) -> tuple[Any, RemoteError | None]:
        """Send a message and wait for its answer; None asks the actor to close.

        Raises:
            WorkerError: the process died or its time is up.
        """
        with contextlib.suppress(OSError):  # it has died: there is nothing to receive either
            self._connection.send_bytes(cloudpickle.dumps(message))
        return cloudpickle.loads(self._receive(method, timeout_seconds))  # type: ignore[no-any-return]

    def kill(self) -> None:
        """End the process; whoever waits for its answer is told."""
        self._process.kill()

    def stop(self) -> None:
        """Let go of the process, which has a moment to end by itself."""
        self._connection.close()
        self._process.join(_EXIT_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        with contextlib.suppress(OSError):
            self._stacks.unlink()

    def _receive(self, method: str, timeout_seconds: float | None) -> bytes:
        ready = wait([self._connection, self._process.sentinel], timeout_seconds)
        if not ready:
            raise self._expired(method, timeout_seconds or 0.0)
        try:
            if self._connection.poll():
                return self._connection.recv_bytes()
        except (EOFError, OSError):
            pass
        raise self._ended(method)

    def _ended(self, method: str) -> WorkerError:
        code = self._exit_code()
        how = f"exited with code {code}" if code is not None and code >= 0 else f"was killed by {_signal_name(code)}"
        return WorkerError(
            f"actor {self.index} (process {self.process_id}) {how} during {method!r}",
            remote_traceback=self._stack() or None,
            actor_index=self.index,
            process_id=self.process_id,
            cause="exited" if code is not None and code >= 0 else "killed",
            process_exit_code=code,
        )

    def _expired(self, method: str, timeout_seconds: float) -> WorkerError:
        with contextlib.suppress(OSError):
            os.kill(self._process.pid or 0, signal.SIGUSR1)
        stack = self._await_stack()
        deadline = "build_timeout_seconds" if method == _CONSTRUCTOR else "the timeout"
        self._process.kill()
        return WorkerError(
            f"actor {self.index} (process {self.process_id}) did not answer {method!r} within {timeout_seconds:g} s "
            "and was killed",
            remote_traceback=stack or None,
            actor_index=self.index,
            process_id=self.process_id,
            cause="timeout",
            process_exit_code=self._exit_code(),
            help=f"raise {deadline} if this is how long it takes",
        )

    def _exit_code(self) -> int | None:
        self._process.join(_EXIT_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join(_EXIT_SECONDS)
        return self._process.exitcode

    def _stack(self) -> str:
        return self._stacks.read_text(encoding="utf-8", errors="replace").strip()

    def _await_stack(self) -> str:
        """The stacks, once they have been written to the end."""
        text, end = "", time.monotonic() + _STACK_SECONDS
        while time.monotonic() < end:
            time.sleep(0.05)
            before, text = text, self._stack()
            if text and text == before:
                break
        return text


def _signal_name(code: int | None) -> str:
    try:
        return signal.Signals(-(code or 0)).name
    except ValueError:
        return "a signal"
