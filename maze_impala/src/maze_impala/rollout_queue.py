"""Rollouts of actors on the worker pool, in order of arrival: the bounded queue between actors and learner."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections import deque
from typing import Any

import attrs
import numpy as np

from maze_impala.actor import ActorPlan, Report
from maze_impala.batch import BatchBuffer
from maze_impala.options import ImpalaOptions
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_kernel.contracts.workers import ActorGroup, Future, GroupOptions, RestartPolicy, WorkerPool
from maze_kernel.errors import MazeWarning, WorkerError
from maze_runtime.rollout.episode_statistics import summarize_episodes
from maze_runtime.rollout.shared_statistics import SharedStatistics
from maze_runtime.workers.lanes import Lanes, lane_specs
from maze_runtime.workers.options import BUILD_SECONDS

_BACKOFF_SECONDS, _BACKOFF_CAP_SECONDS = 0.1, 2.0


@attrs.define
class _Call:
    """A call that has not been dealt with; `slot` is where its rollout goes, None: it makes none."""

    future: Future
    worker: int
    slot: int | None


@attrs.define
class _Arrival:
    """A worker's rollouts in its slot, of which the first `n_taken` were copied to batches."""

    worker: int
    slot: int
    report: Report
    n_taken: int = 0


class RolloutQueue:
    """Keeps actors at work and hands their rollouts to the learner.

    Every worker has a ring of slots, one for the rollout in progress and the rest for those that wait: in shared
    memory where the pool has it. All free slots are asked for in advance, so an actor goes from one rollout to the
    next, with the newest weights there are, and stops only when its ring is full.

    Where actors do not work in parallel, or `deterministic` is asked for, they take turns with the learner instead:
    each makes one rollout, in a fixed order, once the ones before are used up.

    A worker that dies is replaced, with new seeds; what its episodes had earned is forgotten.

    Args:
        context: of the trainer.
        options: of the trainer.
        model: of the learner; actors get a copy.
    """

    def __init__(self, context: TrainerContext, options: ImpalaOptions, model: ActorCritic) -> None:
        self._context = context
        self._options = options
        self._model = model
        self._pool: WorkerPool | None = None
        self._pending: list[_Call] = []
        self._arrived: deque[_Arrival] = deque()
        self._returns: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._epoch = 0

    # For the learner

    def start_segment(self, epoch: int) -> None:
        """Start the workers at the first call; then new episodes and random streams, where they take turns."""
        self._epoch = epoch
        first = self._pool is None
        if first:
            self._spawn()
        elif self._is_asynchronous:
            return
        self._arrived.clear()
        for worker in range(self._n_workers):
            self._begin(worker)
        while self._pending:
            self._receive(self._pending.pop(0))
        if self._is_asynchronous:
            for slot, worker in itertools.product(range(self._plan.n_slots), range(self._n_workers)):
                self._ask(worker, slot)

    def publish(self, weights: np.ndarray, version: int) -> None:
        """Give weights, as `SentWeights` packs them, to all actors, from their next rollout on."""
        self._group.broadcast(weights, version)

    def fill(self, batch: BatchBuffer) -> None:
        """Fill a batch with the next rollouts; waits for them.

        Raises:
            MazeError: an environment raised, or a worker died once too often.
        """
        batch.clear()
        while batch.n_free:
            arrival = self._next()
            first = arrival.n_taken
            n_envs = self._plan.bounds[arrival.worker + 1] - self._plan.bounds[arrival.worker]
            last = min(n_envs, first + batch.n_free)
            columns = self._lanes.read(arrival.worker, arrival.slot, arrival.report.columns)
            report = arrival.report
            batch.add(columns, slice(first, last), report.truncations, report.version, report.departures)
            arrival.n_taken = last
            if last == n_envs:
                self._arrived.popleft()
                if self._is_asynchronous:
                    self._ask(arrival.worker, arrival.slot)

    def mean_return(self) -> float | None:
        """Of the episodes that ended since the last `drain`; None without any."""
        returns = np.concatenate(self._returns) if self._returns else np.zeros(0)
        return float(returns.mean()) if returns.size else None

    def drain(self) -> Statistics:
        """Statistics of the episodes that ended in rollouts that arrived since the last call."""
        none = [np.zeros(0)]
        returns, lengths = np.concatenate(self._returns or none), np.concatenate(self._lengths or none)
        self._returns, self._lengths = [], []
        return summarize_episodes(returns, lengths)

    @property
    def n_restarts(self) -> int:
        """Workers replaced so far."""
        return sum(self._restarts)

    def close(self) -> None:
        """Stop the workers."""
        if self._pool is not None:
            self._pool.close()

    # Starting

    def _spawn(self) -> None:
        context, options = self._context, self._options
        self._pool = context.make_workers()
        self._n_workers = min(self._pool.n_workers, options.num_actors) if context.has_workers else 1
        self._shared = SharedStatistics(context.transforms, "maze-impala", "or choose another trainer")
        n_waiting = options.actors_batch_size * options.queue_out_of_sync_factor / options.num_actors
        model: Any = copy.deepcopy(self._model)
        self._plan = ActorPlan(
            make_envs=context.make_actor_envs,
            model=model.to("cpu"),
            bounds=[options.num_actors * worker // self._n_workers for worker in range(self._n_workers + 1)],
            n_steps=options.n_rollout_steps,
            n_slots=1 + math.ceil(n_waiting),
        )
        columns = [self._plan.columns(worker) for worker in range(self._n_workers)]
        restart = RestartPolicy(
            max_restarts=options.max_actor_restarts,
            backoff_seconds=_BACKOFF_SECONDS,
            backoff_cap_seconds=_BACKOFF_CAP_SECONDS,
        )
        self._group: ActorGroup = self._pool.spawn(
            self._plan,
            self._n_workers,
            GroupOptions(
                arrays=lane_specs(columns, self._plan.n_slots) if self._pool.shares_memory else {},
                restart=restart,
                timeout_seconds=self._pool.timeout_seconds or options.rollout_timeout_seconds,
                build_timeout_seconds=self._pool.build_timeout_seconds
                or max(BUILD_SECONDS, options.rollout_timeout_seconds),
                newest_weights=True,
            ),
        )
        self._is_asynchronous = self._pool.is_parallel and not options.deterministic
        self._restarts = [0] * self._n_workers
        self._lanes = Lanes(self._n_workers, self._group.arrays)

    def _begin(self, worker: int) -> None:
        """New episodes and a new random stream, which depend on the run's seed, the epoch and the replacements."""
        first, last = self._plan.bounds[worker], self._plan.bounds[worker + 1]
        path = (self._epoch, self._restarts[worker]) if self._restarts[worker] else (self._epoch,)
        env_seeds = self._context.seeds.seeds(self._options.num_actors, "train-envs", *path)[first:last]
        policy_seed = self._context.seeds.seed("act", worker, *path)
        future = self._group.call(worker, "begin", [[seed] for seed in env_seeds], policy_seed, self._shared.now())
        self._pending.append(_Call(future, worker, None))

    # Rollouts

    def _next(self) -> _Arrival:
        while not self._arrived:
            if self._is_asynchronous:
                done = {id(future) for future in self._group.wait_any([call.future for call in self._pending])}
                arrived = [call for call in self._pending if id(call.future) in done]
                self._pending = [call for call in self._pending if id(call.future) not in done]
                for call in arrived:
                    self._receive(call)
            else:
                for worker in range(self._n_workers):
                    self._ask(worker, 0)
                while self._pending:
                    self._receive(self._pending.pop(0))
        return self._arrived[0]

    def _ask(self, worker: int, slot: int) -> None:
        future = self._group.call(worker, "collect", slot, self._shared.now())
        self._pending.append(_Call(future, worker, slot))

    def _receive(self, call: _Call) -> None:
        """Take an answer in; where the worker was replaced in the meantime, set the replacement to work."""
        failure: WorkerError | None = None
        report: Report | None = None
        try:
            report = call.future.result()
        except WorkerError as error:
            if not error.is_lost:
                raise
            failure = error
        n_restarts = self._group.restarts(call.worker)
        if n_restarts != self._restarts[call.worker]:
            self._restarts[call.worker] = n_restarts
            what = failure.what if failure is not None else f"actor {call.worker} died"
            warnings.warn(f"{what}; it is replaced and training goes on", MazeWarning, stacklevel=2)
            self._begin(call.worker)
        if report is None:
            if failure is not None or call.slot is not None:
                self._repeat(call)
            return
        assert call.slot is not None
        self._group.forgive(call.worker)
        self._arrived.append(_Arrival(call.worker, call.slot, report))
        self._returns.append(report.returns)
        self._lengths.append(report.lengths)
        self._context.add_events(report.events)
        self._shared.merge([report.partials])

    def _repeat(self, call: _Call) -> None:
        """Make a call again that a worker did not live to answer, or that its replacement was not ready for."""
        if call.slot is None:
            self._begin(call.worker)
        else:
            self._ask(call.worker, call.slot)
        future = self._pending[-1].future
        if future.done():
            future.result()  # raises where replacements are used up
