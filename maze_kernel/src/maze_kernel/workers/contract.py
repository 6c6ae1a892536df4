"""The contract of worker pools; nothing in Maze starts a process but through it.

`pool.spawn(factory, n)` gives a group of stateful actors. Calls return futures. Large arrays travel through
shared arrays where the pool has shared memory; weights are broadcast as one flat buffer. The contract names no
pipe, process or address, so that a cluster pool can implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np


@attrs.frozen(kw_only=True)
class RestartPolicy:
    """What happens when an actor dies or hangs."""

    max_restarts: int = 0
    """Restarts an actor over the group's life; 0: its failure is raised by every pending future."""
    backoff_seconds: float = 0.5
    """Wait before the first restart, doubled at each further one."""
    backoff_cap_seconds: float = 30.0


@attrs.frozen(kw_only=True)
class ArraySpec:
    """A shared array to allocate."""

    shape: tuple[int, ...]
    dtype: str


@attrs.frozen(kw_only=True)
class ActorContext:
    """What an actor's factory is given, in the actor's process."""

    index: int
    n_actors: int
    arrays: Mapping[str, np.ndarray]
    """The group's shared arrays: the very memory of the caller where the pool has shared memory."""


class Future(Protocol):
    """The answer of one call."""

    actor_index: int

    def done(self) -> bool: ...

    def result(self, timeout_seconds: float | None = None) -> Any:
        """The return value.

        Raises:
            WorkerError: the actor raised (with its traceback), died, or did not answer in time.
        """
        ...


class ActorGroup(Protocol):
    """n actors built by one factory.

    A call on an actor runs after those made before it on the same actor. An actor whose last answer is
    pending may be called again; calls queue.
    """

    n_actors: int
    arrays: Mapping[str, np.ndarray]

    def call(self, actor_index: int, method: str, /, *args: Any, timeout_seconds: float | None = None) -> Future: ...

    def call_all(self, method: str, /, *args: Any, timeout_seconds: float | None = None) -> list[Future]: ...

    def wait_any(self, futures: Sequence[Future], timeout_seconds: float | None = None) -> list[Future]:
        """Block until at least one of `futures` is done; returns those that are, in the order given.

        A dead actor makes its futures done: `result` raises.
        """
        ...

    def broadcast(self, flat: np.ndarray, version: int) -> None:
        """Hand one flat buffer to every actor: actor method `load_weights(flat, version)`, before its next call."""
        ...

    def restarts(self, actor_index: int) -> int: ...

    def close(self) -> None:
        """Stop the actors: each one's `close()` if it has one, then its process, by force after a grace time."""
        ...


class WorkerPool(Protocol):
    """Starts actors. Every group it spawned is closed with it; usable as a context manager."""

    n_workers: int
    """How many actors run at the same time at best; what `[workers] count` says."""

    def spawn(
        self,
        factory: Callable[[ActorContext], Any],
        n_actors: int,
        *,
        arrays: Mapping[str, ArraySpec] | None = None,
        restart: RestartPolicy | None = None,
        timeout_seconds: float | None = None,
    ) -> ActorGroup:
        """Build n actors.

        Args:
            factory: called once an actor with its context, in the actor's own process; must survive transport
                to it (a module-level function or class, `functools.partial` of one, or a closure).
            timeout_seconds: default deadline of construction and of every call; None: no deadline.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> WorkerPool: ...

    def __exit__(self, *exc: object) -> None: ...
