"""The contract of worker pools; nothing in Maze starts a process but through it.

`pool.spawn(factory, n)` gives a group of stateful actors. Calls return futures. Large arrays travel through shared
arrays where the pool has shared memory and inside answers where it has none (`maze_runtime.workers.lanes` does
either); weights are broadcast as one flat buffer. The contract names no pipe, process or address, so that a cluster
pool can implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np


@attrs.frozen(kw_only=True)
class RestartPolicy:
    """What happens when an actor dies or hangs, or cannot be built.

    The calls it had begun or been handed fail in any case: whoever made them decides whether they may run twice.
    Calls made while it is being replaced wait for the replacement, which starts from the factory, with the
    weights broadcast last. A method that merely raises leaves its actor alive.
    """

    max_restarts: int = 0
    """Restarts an actor over the group's life, or since `ActorGroup.forgive`; when they are used up, every pending and later call fails."""  # noqa: E501
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
    """The group's shared arrays, the very memory of the caller; none where the pool has no shared memory."""
    constants: Mapping[str, np.ndarray] = attrs.field(factory=dict)
    """What `GroupOptions.constants` were, read-only; actors on one machine read one copy."""


@attrs.frozen(kw_only=True)
class GroupOptions:
    """What whoever spawns a group asks of its pool."""

    arrays: Mapping[str, ArraySpec] = attrs.field(factory=dict)
    """To share; none where the pool has no shared memory."""
    constants: Mapping[str, np.ndarray] = attrs.field(factory=dict)
    """Arrays that actors only read, copied at once; `ActorContext.constants` has them in every pool."""
    restart: RestartPolicy | None = None
    """None: the pool's own."""
    timeout_seconds: float | None = None
    """Default deadline of every call, which starts when the call is the actor's oldest; None: the pool's own. An actor past it is killed, and counts as dead. Pools that cannot interrupt an actor have no deadlines."""  # noqa: E501
    build_timeout_seconds: float | None = None
    """Of each construction; None: the pool's own, or else that of calls."""
    newest_weights: bool = False
    """Calls wait in an actor's queue for long, and each shall begin with the weights broadcast last by then instead of those broadcast last when it was made."""  # noqa: E501
    light: bool = False
    """The actors mostly wait or work while others do not; a pool that gives out processors reserves none for them."""


USUAL_GROUP = GroupOptions()


class Future(Protocol):
    """The answer of one call."""

    actor_index: int

    def done(self) -> bool: ...

    def result(self, timeout_seconds: float | None = None) -> Any:
        """The return value.

        Args:
            timeout_seconds: how long to wait here, whatever the call's own deadline; the actor goes on.

        Raises:
            WorkerError: the actor raised (with its traceback as text), died, or did not answer in time.
            MazeError: the actor raised this very error; its cause is the WorkerError that names the actor.
        """
        ...


class ActorGroup(Protocol):
    """n actors built by one factory.

    A call on an actor runs after those made before it on the same actor. An actor whose last answer is
    pending may be called again; calls queue. A call without arguments whose method returns None is the cheap
    one: nothing is serialised, so a step is one such call and its data lie in shared arrays. Arrays inside
    arguments and answers are copies, which may be read-only; weights that are loaded can be written to.
    """

    @property
    def n_actors(self) -> int: ...

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The shared arrays by name; none where the pool has no shared memory."""
        ...

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """What actors were given to read, read-only; their very memory where it is shared."""
        ...

    def call(self, actor_index: int, method: str, /, *args: Any, timeout_seconds: float | None = None) -> Future: ...

    def call_all(self, method: str, /, *args: Any, timeout_seconds: float | None = None) -> Sequence[Future]: ...

    def wait_any(self, futures: Sequence[Future], timeout_seconds: float | None = None) -> list[Future]:
        """Block until at least one of `futures` is done; returns those that are, in the order given.

        A dead actor makes its futures done: `result` raises.
        """
        ...

    def broadcast(self, flat: np.ndarray, version: int) -> None:
        """Hand one flat buffer to every actor: actor method `load_weights(flat, version)`, before its next call.

        Args:
            flat: copied at once; any one number type.
            version: larger than the one before. An actor that lags more than one broadcast behind may get a newer
                version than its call was made under, and is told which; with `newest_weights` always the newest.
        """
        ...

    def share(self, arrays: Mapping[str, ArraySpec]) -> None:
        """Allocate further arrays (zeros) and hand them to every actor: actor method `attach_arrays(arrays)`.

        For sizes only the actors know. They join `arrays`; replacements get them too. Returns when every actor
        has them.

        Raises:
            RequestError: the pool has no shared memory.
        """
        ...

    def restarts(self, actor_index: int) -> int:
        """How often this actor was replaced."""
        ...

    def forgive(self, actor_index: int) -> None:
        """Count this actor's restarts and their backoff from zero again, because it has proved to work."""
        ...

    def process_id(self, actor_index: int) -> int | None:
        """The process an actor lives in, for messages; None where it has none of its own."""
        ...

    def close(self) -> None:
        """Stop the actors: each one's `close()` if it has one, then its process, by force after a grace time.

        Raises:
            WorkerError: an idle actor's `close` raised, died or took too long; after everything was stopped.
        """
        ...


class WorkerPool(Protocol):
    """Starts actors. Every group it spawned is closed with it; usable as a context manager."""

    n_workers: int
    """How many actors run at the same time at best; what `[workers] count` says."""
    timeout_seconds: float | None
    """Deadline of a call where `GroupOptions` has none; None: none, or none is possible."""
    build_timeout_seconds: float | None
    """The same for a construction, from the request to an actor that answers, however long its process takes to start."""  # noqa: E501
    is_parallel: bool
    """Whether actors work while their caller does something else; False: a call has run when it returns."""
    shares_memory: bool
    """Whether actors and caller can have arrays in common; False: arguments and answers are copies, and nothing else is exchanged."""  # noqa: E501
    shares_files: bool
    """Whether actors find the caller's files under the caller's paths; False: what an actor writes is lost."""

    def spawn(
        self, factory: Callable[[ActorContext], Any], n_actors: int, options: GroupOptions = USUAL_GROUP
    ) -> ActorGroup:
        """Build n actors; returns when all are built.

        Args:
            factory: called once an actor with its context, in the actor's own process; must survive transport
                to it (a module-level function or class, `functools.partial` of one, or a closure).

        Raises:
            WorkerError: an actor could not be built, as for a call.
            RequestError: arrays are to be shared and the pool has no shared memory.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> WorkerPool: ...

    def __exit__(self, *exc: object) -> None: ...
