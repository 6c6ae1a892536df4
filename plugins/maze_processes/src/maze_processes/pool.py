"""The subprocess pool: every actor in a process of its own on this machine.

What lives where: `supervisor` starts and reaps the processes, `child` runs in them, `actor` is the caller's view
of one, `channel` and `transport` carry calls, `shared_memory` arrays and weights. This module holds the pool, its
groups, and the one place that waits: for an answer, for the end of a process, and for a deadline, whichever is first.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.workers import USUAL_GROUP, ActorContext, ArraySpec, GroupOptions, RestartPolicy
from maze_kernel.errors import MazeError, RequestError
from maze_processes import transport
from maze_processes.actor import ActorHandle, GroupSettings
from maze_processes.child import ActorSpec
from maze_processes.shared_memory import ArrayLayout, WeightsBoard, create_descriptor
from maze_processes.supervision import SupervisorClient
from maze_runtime.workers.groups import close_groups
from maze_runtime.workers.lifecycle import RemoteCall
from maze_runtime.workers.options import WorkersOptions
from maze_runtime.workers.remote_group import RemoteGroup


class SubprocessPool:
    """A pool of processes; see `WorkerPool`. One thread at a time uses it and its groups."""

    def __init__(self, options: WorkersOptions | None = None) -> None:
        self._options = options or WorkersOptions()
        self._supervisor = SupervisorClient(self._options)
        self._groups: list[SubprocessGroup] = []
        self.n_workers = self._options.count
        self.timeout_seconds = self._options.timeout_seconds
        self.build_timeout_seconds = _first(self._options.build_timeout_seconds, self._options.timeout_seconds)
        self.is_parallel = True
        self.shares_memory = True
        self.shares_files = True

    def spawn(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        options: GroupOptions = USUAL_GROUP,
    ) -> SubprocessGroup:
        """See `WorkerPool.spawn`; processors are not given out, so `light` has no effect.

        A construction for which neither the caller nor `build_timeout_seconds` of the pool sets a deadline has that
        of the group's calls.
        """
        own = self._options
        timeout = _first(options.timeout_seconds, own.timeout_seconds)
        settings = GroupSettings(
            factory=_encode_factory(factory),
            n_actors=n_actors,
            restart=options.restart or _restart_policy(own),
            timeout_seconds=timeout,
            build_timeout_seconds=_first(options.build_timeout_seconds, own.build_timeout_seconds, timeout),
            grace_seconds=own.grace_seconds,
            torch_threads=own.torch_threads,
            newest_weights=options.newest_weights,
        )
        group = SubprocessGroup(self._supervisor, settings, options.arrays, options.constants)
        self._groups = [*(other for other in self._groups if not other.closed), group]
        try:
            group.build()
        except BaseException:
            group.kill()
            self._groups.remove(group)
            raise
        return group

    def close(self) -> None:
        """Close every group, then the supervisor.

        Raises:
            WorkerError: an actor's `close` raised, died or had to be killed; after everything is stopped.
        """
        error = close_groups(self._groups)
        self._groups.clear()
        self._supervisor.close()
        if error is not None:
            raise error

    def __enter__(self) -> SubprocessPool:
        return self

    def __exit__(self, *exc: object) -> None:
        # An error on the way out must not hide the one that led here.
        with contextlib.suppress(MazeError) if exc[0] is not None else contextlib.nullcontext():
            self.close()


class SubprocessGroup(RemoteGroup[ActorHandle]):
    """Actors in processes; see `ActorGroup`."""

    def __init__(
        self,
        supervisor: SupervisorClient,
        settings: GroupSettings,
        arrays: Mapping[str, ArraySpec],
        constants: Mapping[str, np.ndarray],
    ) -> None:
        super().__init__(settings.timeout_seconds, settings.grace_seconds)
        self.n_actors = settings.n_actors
        self._supervisor = supervisor
        self._version = 0
        self._name_frames: dict[str, transport.Parts] = {}
        layout = ArrayLayout.of(arrays)
        kept = ArrayLayout.of(_specs(constants), layout.end)
        self._arrays_end = kept.end
        shared = (create_descriptor("maze-arrays", kept.end), create_descriptor("maze-weights"))
        self._descriptors: tuple[int, ...] = shared
        self.arrays: dict[str, np.ndarray] = layout.map(shared[0])
        for name, array in kept.map(shared[0]).items():
            array[...] = constants[name]
        self.constants = kept.map(shared[0], writable=False)
        self._board = WeightsBoard(shared[1])
        for index in range(settings.n_actors):
            spec = ActorSpec(
                settings.factory,
                index,
                settings.n_actors,
                layout,
                kept,
                settings.torch_threads,
                settings.newest_weights,
            )
            frame = transport.frame(transport.BUILD, 0, transport.encode(spec))
            self._actors.append(ActorHandle(index, supervisor, settings, frame, shared, self._pump))

    def call(self, actor_index: int, method: str, /, *args: Any, timeout_seconds: float | None = None) -> RemoteCall:
        """See `ActorGroup.call`. Without arguments and answer nothing is serialised."""
        self._check_open()
        return self._actors[actor_index].submit(method, self._frame(method, args), self._deadline(timeout_seconds))

    def call_all(self, method: str, /, *args: Any, timeout_seconds: float | None = None) -> list[RemoteCall]:
        """See `ActorGroup.call_all`."""
        self._check_open()
        frame, deadline = self._frame(method, args), self._deadline(timeout_seconds)
        return [actor.submit(method, frame, deadline) for actor in self._actors]

    def broadcast(self, flat: np.ndarray, version: int) -> None:
        """See `ActorGroup.broadcast`."""
        self._check_open()
        if version <= self._version:
            raise ValueError(f"weights version {version} does not follow {self._version}")
        self._board.write(flat, version)
        self._version = version
        self._name_frames.clear()

    def share(self, arrays: Mapping[str, ArraySpec]) -> None:
        """See `ActorGroup.share`."""
        self._check_open()
        layout = ArrayLayout.of(arrays, self._arrays_end)
        self._arrays_end = layout.end
        os.ftruncate(self._descriptors[0], layout.end)
        self.arrays.update(layout.map(self._descriptors[0]))
        frame = transport.frame(transport.SHARE, 0, transport.encode(layout))
        for call in [actor.set_up("attach_arrays", frame) for actor in self._actors]:
            call.result()

    def kill(self) -> None:
        """Stop every process now."""
        self._abandon()
        for actor in self._actors:
            actor.pump = _nothing_to_wait_for
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()
        self._board.close()

    def _frame(self, method: str, args: tuple[Any, ...]) -> transport.Parts:
        if args:
            return transport.frame(transport.CALL, self._version, *transport.encode_apart((method, args), copy=True))
        frame = self._name_frames.get(method)
        if frame is None:
            frame = transport.frame(transport.NAME, self._version, method.encode())
            self._name_frames[method] = frame
        return frame

    def _ask_to_close(self, actor: ActorHandle, timeout_seconds: float | None) -> RemoteCall:
        return actor.submit("close", transport.frame(transport.CLOSE, self._version), timeout_seconds)

    def _turn(self, timeout_seconds: float | None) -> None:
        """Wait for the first event of any actor, no longer than the timeout, and deal with it."""
        poll = select.poll()
        by_descriptor: dict[int, ActorHandle] = {}
        wake = self._seconds_to_next(timeout_seconds)
        for actor in self._actors:
            if actor.channel is not None:
                descriptor = actor.channel.fileno()
                by_descriptor[descriptor] = actor
                wanted = select.POLLIN | select.POLLOUT if actor.channel.wants_to_write else select.POLLIN
                poll.register(descriptor, wanted)
                if actor.exited:
                    wake = 0.0
        control = self._supervisor.fileno()
        if control >= 0:
            poll.register(control, select.POLLIN)
        events = poll.poll(max(0.0, wake) * 1000)
        for descriptor, event in events:
            if descriptor == control:
                self._supervisor.read()
                continue
            actor = by_descriptor[descriptor]
            if event & select.POLLOUT and actor.channel is not None:
                actor.channel.flush()
            if event & ~select.POLLOUT:
                actor.read()
        if not events or control in dict(events):
            now = time.monotonic()
            for actor in self._actors:
                actor.tick(now)


def _first(*seconds: float | None) -> float | None:
    return next((value for value in seconds if value is not None), None)


def _restart_policy(options: WorkersOptions) -> RestartPolicy:
    return RestartPolicy(
        max_restarts=options.max_restarts,
        backoff_seconds=options.backoff_seconds,
        backoff_cap_seconds=options.backoff_cap_seconds,
    )


def _specs(constants: Mapping[str, np.ndarray]) -> dict[str, ArraySpec]:
    for name, array in constants.items():
        if array.dtype.hasobject or array.dtype.names:
            raise RequestError(
                f"the constant {name!r} cannot lie in memory that processes share",
                received=f"an array of {array.dtype}",
                expected="an array of one number type",
                help="give each field as a constant of its own, and objects to the factory",
            )
    return {name: ArraySpec(shape=array.shape, dtype=array.dtype.str) for name, array in constants.items()}


def _encode_factory(factory: Callable[[ActorContext], Any]) -> bytes:
    try:
        return transport.encode_factory(factory)
    except Exception as error:
        raise RequestError(
            f"the factory of a worker's actor cannot be sent to its process: {error}",
            received=repr(factory)[:200],
            expected="a factory that holds plain data and builds the rest in the worker",
            help="give a function or class that makes the object instead of the object itself",
        ) from error


def _nothing_to_wait_for(_calls: list[RemoteCall], _timeout_seconds: float | None) -> None:
    """Every call of a closed group is done."""
