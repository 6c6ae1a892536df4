"""The caller's end of the supervisor: start workers, hear of their deaths, kill them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import time

from maze_kernel.errors import WorkerError
from maze_processes import supervisor
from maze_processes.child import Descriptors
from maze_runtime.workers.options import WorkersOptions

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class SupervisorClient:
    """One supervisor process, started with the first worker. Not for use by several threads at once."""

    def __init__(self, options: WorkersOptions) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._received = b""
        self._next_worker = 0
        self.process_ids: dict[int, int] = {}
        """Worker number to process id."""
        self.exit_codes: dict[int, int] = {}
        """Worker number to exit code (negative: the signal), of those that ended."""

    def fileno(self) -> int:
        """Readable when there is something for `read`; -1 while there is no supervisor."""
        return -1 if self._control is None else self._control.fileno()

    def start(self, descriptors: Descriptors) -> int:
        """Start a worker with copies of these descriptors; returns its number."""
        if self._control is None:
            self._launch()
        assert self._control is not None
        worker = self._next_worker
        self._next_worker += 1
        request = json.dumps({"do": "start", "worker": worker}).encode() + b"\n"
        try:
            socket.send_fds(self._control, [request], list(descriptors))
        except OSError:
            self._lost()
        return worker

    def kill(self, worker: int) -> None:
        """Kill a worker and what it started."""
        self._request("kill", worker)

    def dump(self, worker: int) -> None:
        """Have a worker write the stacks of its threads."""
        self._request("dump", worker)

    def read(self) -> None:
        """Take in what the supervisor reported."""
        if self._control is None:
            return
        try:
            data = self._control.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            notice = json.loads(line)
            if "started" in notice:
                self.process_ids[notice["worker"]] = notice["started"]
            else:
                self.exit_codes[notice["worker"]] = notice["exited"]

    def wait_exit(self, worker: int, timeout_seconds: float) -> int | None:
        """The exit code of a worker that is about to end; None if it did not in time."""
        deadline = time.monotonic() + timeout_seconds
        while worker not in self.exit_codes and self._control is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            if poll.poll(remaining * 1000):
                self.read()
        return self.exit_codes.get(worker)

    def close(self) -> None:
        """End the supervisor and every worker that is left."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        fork = self._options.start_method == "forkserver"
        command = supervisor.command("main", theirs.fileno(), fork, tuple(self._options.preload), os.getpid())
        threads = {name: str(self._options.torch_threads) for name in _THREAD_VARIABLES}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **threads},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise WorkerError(f"the worker supervisor cannot be started: {error}", cause="not started") from error
        finally:
            theirs.close()
        self._control = ours
        self._received = b""

    def _request(self, what: str, worker: int) -> None:
        if self._control is None or worker in self.exit_codes:
            return
        try:
            self._control.sendall(json.dumps({"do": what, "worker": worker}).encode() + b"\n")
        except OSError:
            self._lost()

    def _lost(self) -> None:
        """The supervisor died; the kernel killed its workers with it. The next start launches another."""
        self.close()
        for worker in range(self._next_worker):
            self.exit_codes.setdefault(worker, -9)
