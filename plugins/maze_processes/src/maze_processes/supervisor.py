"""The supervisor: a small process, one a pool, that starts the workers and never outlives its caller.

It has one thread and imports little, so it may fork. It lives in a session of its own, so a terminal's signals
do not reach it; when the caller is gone, in whatever way, its socket closes and the supervisor kills what is left.
Requests and notices are lines of JSON on that socket, descriptors ride along.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from maze_processes.child import Descriptors, die_with_parent, run

_LINGER_SECONDS = 1.0


def command(function: str, *arguments: object) -> list[str]:
    """The command line that runs `function(*arguments)` of this module in a fresh interpreter."""
    code = f"import sys; sys.path[:] = {sys.path!r}; import {__name__} as s; s.{function}"
    return [sys.executable, "-c", f"{code}(*{arguments!r})"]


def main(descriptor: int, fork: bool, preload: tuple[str, ...], caller_id: int) -> None:
    """Serve requests on the socket `descriptor` until the caller is gone."""
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.set_inheritable(descriptor, False)
    if os.getppid() != caller_id:
        return
    for module in preload if fork else ():
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    Supervisor(socket.socket(fileno=descriptor), fork and _one_thread()).serve()


def run_spawned(descriptors: tuple[int, int, int, int], parent_id: int) -> None:
    """The entry of a worker in a fresh interpreter."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    _leave(run(Descriptors(*descriptors), parent_id))


def _one_thread() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return True


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


class Supervisor:
    """Starts, signals and reaps the workers of one pool."""

    def __init__(self, control: socket.socket, fork: bool) -> None:
        self._control = control
        self._fork = fork
        self._received = b""
        self._descriptors: list[int] = []
        self._processes: dict[int, int] = {}  # process id to worker number
        self._wake, wake_end = socket.socketpair()
        wake_end.setblocking(False)
        self._wake_end = wake_end
        signal.set_wakeup_fd(wake_end.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake.fileno() in ready:
                self._wake.recv(4096)
            self._reap()
            if self._control.fileno() in ready and not self._receive():
                break
        self._end()

    def _receive(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 65536, 64)
        except OSError:
            return False
        self._descriptors += descriptors
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return bool(data)

    def _handle(self, request: dict[str, Any]) -> None:
        worker = request["worker"]
        if request["do"] == "start":
            descriptors = Descriptors(*self._descriptors[:4])
            del self._descriptors[:4]
            process_id = self._start(descriptors)
            self._processes[process_id] = worker
            for descriptor in descriptors:
                os.close(descriptor)
            self._notify({"worker": worker, "started": process_id})
            return
        for process_id in [key for key, value in self._processes.items() if value == worker]:
            if request["do"] == "kill":
                _kill(process_id)
            else:
                os.kill(process_id, signal.SIGUSR1)

    def _start(self, descriptors: Descriptors) -> int:
        parent_id = os.getpid()
        process_id = os.fork()
        if process_id:
            with contextlib.suppress(OSError):
                os.setpgid(process_id, process_id)
            return process_id
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setpgid(0, 0)
            if self._fork:
                for end in (self._control, self._wake, self._wake_end):
                    end.close()
                code = run(descriptors, parent_id)
            else:
                die_with_parent(parent_id)
                for descriptor in descriptors:
                    os.set_inheritable(descriptor, True)
                os.execv(sys.executable, command("run_spawned", tuple(descriptors), parent_id))
        finally:
            _leave(code)
        raise AssertionError

    def _reap(self) -> None:
        while True:
            try:
                process_id, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process_id == 0:
                return
            worker = self._processes.pop(process_id, None)
            # What the worker started itself shares its process group.
            with contextlib.suppress(OSError):
                os.killpg(process_id, signal.SIGKILL)
            if worker is not None:
                self._notify({"worker": worker, "exited": os.waitstatus_to_exitcode(status)})

    def _notify(self, notice: dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(notice).encode() + b"\n")

    def _end(self) -> None:
        """Workers see their caller gone and close; those that do not are killed."""
        deadline = time.monotonic() + _LINGER_SECONDS
        while self._processes and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap()
        for process_id in list(self._processes):
            _kill(process_id)
        while self._processes:
            time.sleep(0.02)
            self._reap()


def _kill(process_id: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process_id, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.killpg(process_id, signal.SIGKILL)
