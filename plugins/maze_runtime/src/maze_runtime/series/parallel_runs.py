"""The caller's side: as many runs at a time as there are workers, each asked for one evaluation after the other."""

from __future__ import annotations

import time
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import attrs

from maze_kernel.contracts.workers import Future, GroupOptions, RestartPolicy, WorkerPool
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.series.run_actor import RunActor, RunReport, RunTask
from maze_runtime.training.one_thread import trains_alone

if TYPE_CHECKING:
    from types import TracebackType

_MANY_RESTARTS = 1_000_000
"""A worker that dies is replaced for as long as its caller gives it runs."""


@attrs.frozen(kw_only=True)
class RunEvent:
    """What became of a call.

    Attributes:
        key: of the run, as given to `start`.
        report: where it stands; a report with an outcome is the last one, and its worker is free again.
        error: why it failed, in place of a report; its worker is free again.
    """

    key: Hashable
    report: RunReport | None = None
    error: MazeError | None = None

    @property
    def is_last(self) -> bool:
        """Whether nothing more comes from this run."""
        return self.report is None or self.report.outcome is not None


class ParallelRuns:
    """Runs on the workers of a pool; a context manager. The caller starts, advances and stops them by their keys.

    A run whose worker dies fails with a `WorkerError`; started again with the same directory, it goes on from its
    newest checkpoint.

    Args:
        pool: has the caller's files. One that is not parallel trains one run at a time.
        n_parallel: runs at a time.
        timeout_seconds: deadline of an epoch with its evaluation, and of building a run; None: none.

    Raises:
        RequestError: the pool does not share files with its caller; on entering, where runs are trained in this
            process: another thread of it trains.
        WorkerError: a worker could not be started.
    """

    def __init__(self, pool: WorkerPool, n_parallel: int, *, timeout_seconds: float | None = None) -> None:
        if not pool.shares_files:
            raise RequestError(
                "runs cannot be trained on workers that do not share files with this process",
                received=f"a pool {type(pool).__name__} without shared files",
                expected="run directories that workers and this process see under one path",
                help="put the runs on storage that all machines share and say so with shared_files = true, "
                'or train them here with [workers] use = "subprocess"',
            )
        self._group = pool.spawn(
            RunActor,
            n_parallel if pool.is_parallel else 1,
            GroupOptions(
                restart=RestartPolicy(max_restarts=_MANY_RESTARTS),
                timeout_seconds=timeout_seconds,
            ),
        )
        self._alone: AbstractContextManager[None] = nullcontext() if pool.is_parallel else trains_alone()
        self._free = list(range(self._group.n_actors))
        self._actors: dict[Hashable, int] = {}
        self._pending: dict[Future, Hashable] = {}

    @property
    def n_parallel(self) -> int:
        """Runs at a time."""
        return self._group.n_actors

    @property
    def n_free(self) -> int:
        """How many more runs can be started now."""
        return len(self._free)

    @property
    def running(self) -> tuple[Hashable, ...]:
        """The keys of the runs that were started and are not over."""
        return tuple(self._actors)

    def start(self, key: Hashable, task: RunTask) -> None:
        """Begin a run on a free worker, or go on with the one in its directory; `wait` tells when it is built."""
        actor = self._free.pop(0)
        self._actors[key] = actor
        self._pending[self._group.call(actor, "begin", task)] = key

    def advance(self, key: Hashable) -> None:
        """Let a run train up to its next evaluation."""
        self._pending[self._group.call(self._actors[key], "advance")] = key

    def stop(self, key: Hashable, status: str, reason: str) -> None:
        """Let a run be saved and ended; its last report follows."""
        self._pending[self._group.call(self._actors[key], "stop", status, reason)] = key

    def wait(self, timeout_seconds: float | None = None) -> list[RunEvent]:
        """What happened next, of one run at least, or nothing within that time or where no call is pending."""
        if not self._pending:
            if timeout_seconds:
                time.sleep(timeout_seconds)
            return []
        done = self._group.wait_any(list(self._pending), timeout_seconds)
        return [self._event(future) for future in done]

    def close(self) -> None:
        """End the workers; runs that are not over are saved, unless their worker is busy for too long."""
        self._group.close()

    def __enter__(self) -> ParallelRuns:
        self._alone.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except MazeError:
            if error is None:
                raise
        finally:
            self._alone.__exit__(kind, error, trace)

    def _event(self, future: Future) -> RunEvent:
        key = self._pending.pop(future)
        try:
            event = RunEvent(key=key, report=future.result())
            self._group.forgive(future.actor_index)
        except MazeError as error:
            event = RunEvent(key=key, error=error)
        if event.is_last:
            self._free.append(self._actors.pop(key))
        return event
