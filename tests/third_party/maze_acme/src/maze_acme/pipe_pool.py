"""The worker pool "acme-pipes": processes that share no memory with their caller, as on other machines.

`pipe_worker` runs in the processes, `pipe_process` starts, asks and ends one, `pipe_actor` queues the calls of an actor
and replaces its process. This module holds the pool and its groups.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from maze_acme.options import PipesOptions
from maze_acme.pipe_actor import ActorSettings, PipeActor, PipeCall, Weights
from maze_kernel.contracts.workers import USUAL_GROUP, ActorContext, ArraySpec, Future, GroupOptions, RestartPolicy
from maze_kernel.errors import MazeError, RequestError, WorkerError
from maze_runtime.workers.lanes import no_shared_memory
from maze_runtime.workers.modules import modules_to_ship

_NAME = "the pool acme-pipes"


class PipePool:
    """A pool of processes; see `WorkerPool`."""

    def __init__(self, options: PipesOptions) -> None:
        self._options = options
        self._groups: list[PipeGroup] = []
        self.n_workers = options.count
        self.timeout_seconds = options.timeout_seconds
        self.build_timeout_seconds = options.build_timeout_seconds or options.timeout_seconds
        self.is_parallel = True
        self.shares_memory = False
        self.shares_files = True

    def spawn(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        options: GroupOptions = USUAL_GROUP,
    ) -> PipeGroup:
        """See `WorkerPool.spawn`; processors are not given out, so `light` has no effect."""
        if options.arrays:
            raise no_shared_memory(_NAME, options.arrays)
        own = self._options
        restart = options.restart or RestartPolicy(
            max_restarts=own.max_restarts,
            backoff_seconds=own.backoff_seconds,
            backoff_cap_seconds=own.backoff_cap_seconds,
        )
        timeout = own.timeout_seconds if options.timeout_seconds is None else options.timeout_seconds
        changed = threading.Condition()
        settings = ActorSettings(
            factory=_encoded(factory),
            n_actors=n_actors,
            constants={name: _frozen(array) for name, array in options.constants.items()},
            restart=restart,
            build_timeout_seconds=options.build_timeout_seconds or own.build_timeout_seconds or timeout,
            grace_seconds=own.grace_seconds,
            torch_threads=own.torch_threads,
            changed=changed,
        )
        group = PipeGroup(settings, timeout, options.newest_weights)
        self._groups = [*(other for other in self._groups if not other.closed), group]
        try:
            group.await_actors()
        except BaseException:
            with contextlib.suppress(MazeError):
                group.close()
            raise
        return group

    def close(self) -> None:
        """Close every group.

        Raises:
            WorkerError: an actor's `close` raised, died or had to be killed; after everything is stopped.
        """
        errors = []
        for group in self._groups:
            try:
                group.close()
            except MazeError as error:
                errors.append(error)
        self._groups.clear()
        if errors:
            raise errors[0]

    def __enter__(self) -> PipePool:
        return self

    def __exit__(self, *exc: object) -> None:
        # An error on the way out must not hide the one that led here.
        with contextlib.suppress(MazeError) if exc[0] is not None else contextlib.nullcontext():
            self.close()


class PipeGroup:
    """Actors in processes; see `ActorGroup`. Every actor has a thread here that talks to its process."""

    def __init__(self, settings: ActorSettings, timeout_seconds: float | None, newest_weights: bool) -> None:
        self.n_actors = settings.n_actors
        self.arrays: Mapping[str, np.ndarray] = {}
        self.constants = settings.constants
        self.closed = False
        self._weights: Weights | None = None
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = settings.grace_seconds
        self._changed = settings.changed
        newest = (lambda: self._weights) if newest_weights else None
        self._actors = [PipeActor(index, settings, newest) for index in range(settings.n_actors)]

    def await_actors(self) -> None:
        """Wait until every actor is built.

        Raises:
            MazeError: one of them cannot be.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: all(actor.ready for actor in self._actors) or any(actor.failure for actor in self._actors)
            )
        for actor in self._actors:
            if actor.failure is not None:
                raise actor.failure

    def call(self, actor_index: int, method: str, /, *args: Any, timeout_seconds: float | None = None) -> PipeCall:
        """See `ActorGroup.call`."""
        self._check_open()
        body = cloudpickle.dumps((method, args))
        return self._actors[actor_index].submit(method, body, self._weights, self._deadline(timeout_seconds))

    def call_all(self, method: str, /, *args: Any, timeout_seconds: float | None = None) -> list[PipeCall]:
        """See `ActorGroup.call_all`."""
        self._check_open()
        body = cloudpickle.dumps((method, args))
        deadline = self._deadline(timeout_seconds)
        return [actor.submit(method, body, self._weights, deadline) for actor in self._actors]

    def wait_any(self, futures: Sequence[Future], timeout_seconds: float | None = None) -> list[Future]:
        """See `ActorGroup.wait_any`."""
        with self._changed:
            if futures:
                self._changed.wait_for(lambda: any(future.done() for future in futures), timeout_seconds)
            return [future for future in futures if future.done()]

    def broadcast(self, flat: np.ndarray, version: int) -> None:
        """See `ActorGroup.broadcast`; the weights travel with the next call."""
        self._check_open()
        before = 0 if self._weights is None else self._weights[1]
        if version <= before:
            raise ValueError(f"weights version {version} does not follow {before}")
        self._weights = np.array(flat).reshape(-1), version

    def share(self, arrays: Mapping[str, ArraySpec]) -> None:
        """Refused; see `ActorGroup.share`."""
        raise no_shared_memory(_NAME, arrays)

    def restarts(self, actor_index: int) -> int:
        """How often this actor was replaced."""
        return self._actors[actor_index].restarts

    def forgive(self, actor_index: int) -> None:
        """See `ActorGroup.forgive`."""
        self._actors[actor_index].forgive()

    def process_id(self, actor_index: int) -> int | None:
        """The process an actor lives in."""
        return self._actors[actor_index].process_id

    def close(self) -> None:
        """See `ActorGroup.close`."""
        if self.closed:
            return
        self.closed = True
        deadline = time.monotonic() + self._grace_seconds
        for actor in self._actors:
            actor.begin_close()
        for actor in self._actors:
            actor.end_close(deadline - time.monotonic())
        for actor in self._actors:
            if actor.close_error is not None:
                raise actor.close_error

    def _deadline(self, timeout_seconds: float | None) -> float | None:
        return self._timeout_seconds if timeout_seconds is None else timeout_seconds

    def _check_open(self) -> None:
        if self.closed:
            raise WorkerError("the group of actors is closed", cause="closed")


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _encoded(factory: Callable[[ActorContext], Any]) -> bytes:
    modules = modules_to_ship(cloudpickle.list_registry_pickle_by_value())
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        encoded: bytes = cloudpickle.dumps(factory)
    except Exception as error:
        raise RequestError(
            f"the factory of a worker's actor cannot be sent to its process: {error}",
            received=repr(factory)[:200],
            expected="a factory that holds plain data and builds the rest in the worker",
            owner="maze-acme",
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return encoded
