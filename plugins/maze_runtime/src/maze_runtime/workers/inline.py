"""The inline pool: actors in this process; a call runs at once, in the caller's thread.

For debugging, for small work, and as the reference for what every other pool must do. A call cannot be
interrupted, so deadlines do nothing and nothing is ever restarted.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maze_kernel.contracts.workers import USUAL_GROUP, ActorContext, ArraySpec, Future, GroupOptions
from maze_kernel.errors import MazeError, WorkerError
from maze_runtime.workers.groups import close_groups
from maze_runtime.workers.options import WorkersOptions


class InlinePool:
    """Actors in this process; see `WorkerPool`."""

    def __init__(self, options: WorkersOptions | None = None) -> None:
        self.n_workers = (options or WorkersOptions()).count
        self.timeout_seconds: float | None = None
        self.build_timeout_seconds: float | None = None
        self.is_parallel = False
        self.shares_memory = True
        self.shares_files = True
        self._groups: list[InlineGroup] = []

    def spawn(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        options: GroupOptions = USUAL_GROUP,
    ) -> InlineGroup:
        """See `WorkerPool.spawn`; only arrays and constants have an effect; the weights are always the newest."""
        group = InlineGroup(factory, n_actors, options.arrays, options.constants)
        self._groups.append(group)
        return group

    def close(self) -> None:
        """Close every group.

        Raises:
            WorkerError: an actor's `close` raised; after all were closed.
        """
        error = close_groups(self._groups)
        self._groups.clear()
        if error is not None:
            raise error

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.close()
        except MazeError:
            if exc[0] is None:
                raise


class InlineFuture:
    """The answer of a call that has already run."""

    __slots__ = ("_error", "_value", "actor_index")

    def __init__(self, actor_index: int, value: Any, error: MazeError | None) -> None:
        self.actor_index = actor_index
        self._value = value
        self._error = error

    def done(self) -> bool:
        return True

    def result(self, timeout_seconds: float | None = None) -> Any:
        """See `Future.result`."""
        if self._error is not None:
            raise self._error
        return self._value


class InlineGroup:
    """Actors in this process; see `ActorGroup`."""

    def __init__(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        arrays: Mapping[str, ArraySpec],
        constants: Mapping[str, np.ndarray],
    ) -> None:
        self.n_actors = n_actors
        self.arrays = _allocate(arrays)
        self.constants = {name: _frozen_copy(array) for name, array in constants.items()}
        self._weights: np.ndarray | None = None
        self._version = 0
        self._applied = [0] * n_actors
        self._closed = False
        self._actors: list[Any] = []
        for index in range(n_actors):
            context = ActorContext(index=index, n_actors=n_actors, arrays=self.arrays, constants=self.constants)
            actor, error = _attempt(index, "its constructor", factory, context)
            if error is not None:
                self._close_actors()
                raise error
            self._actors.append(actor)

    def call(self, actor_index: int, method: str, /, *args: Any, timeout_seconds: float | None = None) -> InlineFuture:
        """Run the method now; see `ActorGroup.call`."""
        self._check_open()
        actor = self._actors[actor_index]

        def run() -> Any:
            if self._applied[actor_index] != self._version:
                assert self._weights is not None
                self._applied[actor_index] = self._version
                actor.load_weights(self._weights.copy(), self._version)
            return getattr(actor, method)(*args)

        return InlineFuture(actor_index, *_attempt(actor_index, method, run))

    def call_all(self, method: str, /, *args: Any, timeout_seconds: float | None = None) -> list[InlineFuture]:
        """See `ActorGroup.call_all`."""
        return [self.call(index, method, *args) for index in range(self.n_actors)]

    def wait_any(self, futures: Sequence[Future], timeout_seconds: float | None = None) -> list[Future]:
        """Every future is done already."""
        return list(futures)

    def broadcast(self, flat: np.ndarray, version: int) -> None:
        """See `ActorGroup.broadcast`."""
        self._check_open()
        if version <= self._version:
            raise ValueError(f"weights version {version} does not follow {self._version}")
        self._weights = np.array(flat).reshape(-1)
        self._version = version

    def share(self, arrays: Mapping[str, ArraySpec]) -> None:
        """See `ActorGroup.share`."""
        self._check_open()
        added = _allocate(arrays)
        self.arrays.update(added)
        for index, actor in enumerate(self._actors):
            _, error = _attempt(index, "attach_arrays", actor.attach_arrays, added)
            if error is not None:
                raise error

    def restarts(self, actor_index: int) -> int:
        """Always 0."""
        return 0

    def forgive(self, actor_index: int) -> None:
        """Nothing: nothing is ever restarted."""

    def process_id(self, actor_index: int) -> int | None:
        """None: an inline actor has no process of its own."""
        return None

    def close(self) -> None:
        """See `ActorGroup.close`."""
        if self._closed:
            return
        self._closed = True
        errors = self._close_actors()
        if errors:
            raise errors[0]

    def _close_actors(self) -> list[MazeError]:
        errors = []
        for index, actor in enumerate(self._actors):
            if hasattr(actor, "close"):
                _, error = _attempt(index, "close", actor.close)
                errors += [error] if error is not None else []
        self._actors = []
        return errors

    def _check_open(self) -> None:
        if self._closed:
            raise WorkerError("the group of actors is closed", cause="closed")


def _allocate(arrays: Mapping[str, ArraySpec]) -> dict[str, np.ndarray]:
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in arrays.items()}


def _frozen_copy(array: np.ndarray) -> np.ndarray:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _attempt(actor_index: int, method: str, function: Callable[..., Any], *args: Any) -> tuple[Any, MazeError | None]:
    try:
        return function(*args), None
    except KeyboardInterrupt:
        raise
    except MazeError as error:
        return None, error
    except (Exception, SystemExit) as error:
        wrapped = WorkerError(
            f"actor {actor_index} raised {type(error).__name__} in {method!r}: {error}",
            remote_traceback="".join(traceback.format_exception(error)),
            actor_index=actor_index,
            cause="raised",
        )
        wrapped.__cause__ = error
        return None, wrapped
