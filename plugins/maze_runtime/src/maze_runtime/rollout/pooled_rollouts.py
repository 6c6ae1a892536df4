"""Rollouts of a worker pool, whichever it is: starts its actors, asks them, and goes on where one is replaced."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NoReturn

import numpy as np

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.workers import ActorGroup, Future, GroupOptions, WorkerPool
from maze_kernel.errors import EnvError, MazeError, MazeWarning, WorkerError
from maze_runtime.rollout.collecting_actor import CollectingPlan
from maze_runtime.rollout.collector import make_buffer
from maze_runtime.rollout.rollout_host import SliceRollout
from maze_runtime.rollout.shared_statistics import RunStatistics
from maze_runtime.workers.lanes import Columns, Lanes, lane_specs
from maze_runtime.workers.options import BUILD_SECONDS
from maze_runtime.workers.repeatable import result_or_again


class PooledRollouts:
    """Implements `RolloutWorkers` on a pool; the actors start with the first episodes, when wrappers have statistics.

    A worker that dies is replaced if the pool gives a replacement. Its environments start new episodes, with seeds
    that follow from the old ones, and make the rollout in progress from the beginning. At the next
    `begin_rollouts` nothing remembers it.

    Args:
        pool: spawns the actors.
        plan: what they are told.
        spaces: outside of the plan's transforms.
        timeout_seconds: deadline of a call.
    """

    def __init__(
        self, pool: WorkerPool, plan: CollectingPlan, spaces: StructuredSpaces, timeout_seconds: float
    ) -> None:
        self.bounds = plan.bounds
        self.restarted: list[int] = []
        self._pool = pool
        self._plan = plan
        self._spaces = spaces
        self._timeout_seconds = timeout_seconds
        self._build_seconds = pool.build_timeout_seconds or max(BUILD_SECONDS, timeout_seconds)
        self._n_workers = len(plan.bounds) - 1
        self._restarts = [0] * self._n_workers
        self._version = 0
        self._group: ActorGroup | None = None

    def begin_rollouts(
        self, seeds: Sequence[Sequence[int]], policy_seeds: Sequence[int], told: RunStatistics | None
    ) -> None:
        """See `RolloutWorkers`."""
        builds = self._group is None
        if self._group is None:
            self._group = self._spawn()
            self._lanes = Lanes(self._n_workers, self._group.arrays)
        self._seeds, self._policy_seeds, self._told = seeds, policy_seeds, told
        self._renewals = [0] * self._n_workers
        futures = [self._begin(worker, builds=builds) for worker in range(self._n_workers)]
        for worker, future in enumerate(futures):
            self._await_begin(worker, future)

    def collect_rollouts(
        self, flat: np.ndarray, told: RunStatistics | None, *, at_random: bool
    ) -> Iterator[tuple[SliceRollout, Columns]]:
        """See `RolloutWorkers`."""
        group = self._started()
        self._version += 1
        self.restarted, self._told = [], told
        group.broadcast(flat, self._version)
        rollouts: dict[int, SliceRollout] = {}
        futures = {worker: group.call(worker, "collect", at_random, told) for worker in range(self._n_workers)}
        while futures:
            for future in group.wait_any(list(futures.values())):
                worker = future.actor_index
                rollout = self._answer(worker, future)
                if rollout is None:
                    futures[worker] = group.call(worker, "collect", at_random)
                else:
                    rollouts[worker] = rollout
                    del futures[worker]
        for worker in range(self._n_workers):
            yield rollouts[worker], self._lanes.read(worker, 0, rollouts[worker].columns)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of each environment's episodes since the last call; those of a dead worker are lost."""
        drained: list[list[EpisodeStatistics]] = []
        if self._group is None:
            return drained
        for worker, future in enumerate(self._group.call_all("drain_batch_statistics")):
            try:
                drained += future.result()
            except MazeError as error:
                if not _is_lost(error):
                    self._raise(worker, error)
        return drained

    def close(self) -> None:
        """Close the environments and stop the workers.

        Raises:
            EnvError: an environment's `close` raised, or its worker had to be killed.
        """
        if self._group is None:
            return
        try:
            self._group.close()
        except MazeError as error:
            index = error.actor_index if isinstance(error, WorkerError) else None
            self._raise(index or 0, error)

    def _spawn(self) -> ActorGroup:
        arrays = {}
        if self._pool.shares_memory:
            sizes = [last - first for first, last in itertools.pairwise(self.bounds)]
            columns = [make_buffer(self._spaces, self._plan.n_steps, size).columns() for size in sizes]
            arrays = lane_specs(columns, n_slots=1)
        return self._pool.spawn(
            self._plan,
            self._n_workers,
            GroupOptions(
                arrays=arrays, timeout_seconds=self._timeout_seconds, build_timeout_seconds=self._build_seconds
            ),
        )

    def _started(self) -> ActorGroup:
        assert self._group is not None, "begin rollouts first"
        return self._group

    # Workers that die

    def _begin(self, worker: int, *, builds: bool = True) -> Future:
        """New episodes and a new random stream, which depend on how often this worker was replaced since the seeds.

        Args:
            builds: the worker is new and builds its environments.
        """
        renewal = self._renewals[worker]
        own = self._seeds[self.bounds[worker] : self.bounds[worker + 1]]
        seeds = [[_renewed(seed, renewal) for seed in sequence] for sequence in own]
        policy_seed = _renewed(self._policy_seeds[worker], renewal)
        seconds = self._build_seconds if builds else self._timeout_seconds
        return self._started().call(worker, "begin", seeds, policy_seed, self._told, timeout_seconds=seconds)

    def _await_begin(self, worker: int, future: Future) -> None:
        try:
            result_or_again(future, partial(self._begin, worker))
        except MazeError as error:
            self._raise(worker, error)
        self._restarts[worker] = self._started().restarts(worker)

    def _answer(self, worker: int, future: Future) -> SliceRollout | None:
        """A worker's rollout; None where it goes on, or begins again because the worker was replaced."""
        failure: MazeError | None = None
        rollout: SliceRollout | None = None
        try:
            rollout = future.result()
        except MazeError as error:
            if not _is_lost(error):
                self._raise(worker, error)
            failure = error
        if failure is None and self._started().restarts(worker) == self._restarts[worker]:
            return rollout
        self._renewals[worker] += 1
        self.restarted = sorted({*self.restarted, worker})
        self._await_begin(worker, self._begin(worker))
        what = f"actor {worker} died" if failure is None else failure.what
        warnings.warn(f"{what}; {self._environments(worker)} start new episodes in another", MazeWarning, 2)
        return None

    def _environments(self, worker: int) -> str:
        first = self._plan.first_index
        return f"environments {first + self.bounds[worker]} to {first + self.bounds[worker + 1] - 1}"

    def _raise(self, worker: int, error: MazeError) -> NoReturn:
        cause = error if isinstance(error, WorkerError) else error.__cause__
        if error is cause:
            raise EnvError(
                error.what, owner=self._environments(worker), help=error.help, remote_traceback=error.remote_traceback
            ) from error
        if isinstance(error, EnvError) and isinstance(cause, WorkerError) and cause.process_id is not None:
            error.owner = f"{error.owner}, process {cause.process_id}"
            error.remote_traceback = cause.remote_traceback
        raise error


def _is_lost(error: MazeError) -> bool:
    return isinstance(error, WorkerError) and error.is_lost


def _renewed(seed: int, renewal: int) -> int:
    """A seed of its own for every replacement."""
    return int(np.random.SeedSequence((seed, renewal)).generate_state(1)[0]) >> 1 if renewal else int(seed)
