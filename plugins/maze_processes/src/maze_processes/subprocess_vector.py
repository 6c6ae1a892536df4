"""The subprocess vector environment: several environments a worker, one exchange of arrays a step.

For the same environments and seeds it gives the transitions of `SequentialVectorEnv`, bit for bit. Flat
environments exchange actions, observations, rewards and flags through shared arrays and pickle nothing;
structured ones, and all on a pool without shared memory, send each worker's tick as a message (`structured_merge`).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.contracts.workers import ActorGroup, ArraySpec, Future, RestartPolicy, WorkerPool
from maze_kernel.errors import EnvError, MazeError, RequestError, WorkerError
from maze_processes.env_host import (
    EPISODE,
    PHASE,
    PROGRESS,
    SEED,
    EnvFactory,
    HostFactory,
    array_specs,
    by_prefix,
    describe_progress,
)
from maze_processes.pool import SubprocessPool
from maze_processes.structured_merge import merge_ticks, split_actions
from maze_runtime.env.batching import check_same_spaces
from maze_runtime.workers.options import WorkersOptions

if TYPE_CHECKING:
    from maze_kernel.contracts.model import Policy
    from maze_kernel.contracts.vector import VectorEnv
    from maze_runtime.models.flat_parameters import FlatParameters
    from maze_runtime.rollout.collector import RolloutCollector
    from maze_runtime.rollout.remote_collector import RemoteCollector


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class SubprocessVectorEnv:
    """Implements `VectorEnv` on the actors of a worker pool, with same-step autoreset.

    Buffers are double: a tick's arrays stay as they are during the next call and are overwritten by the one after.

    A worker that dies or does not answer in time is replaced `max_restarts` times. The episodes it was in are
    reported as truncated with reward 0, their last observation seen as the final one, and new episodes begin
    with seeds derived from the old ones. An environment that merely raises always stops with its error: it would
    raise again.

    Attributes:
        seeds_every_episode: see `SeedsEveryEpisode`.
        workers: the actors, `EnvHost`.
        shares_memory: whether arrays can be shared with them.
        bounds: worker i has environments bounds[i] … bounds[i + 1] − 1.

    Args:
        env_factories: build one environment each; all must have equal spaces.
        n_processes: workers among which the environments are divided, neighbours together.
        pool: what starts the workers; None: a subprocess pool of its own.
        owns_pool: whether the pool is closed with this object, which one of its own always is.
        timeout_seconds: of the construction of a worker's environments, a reset, a step; None: no deadline.
        max_restarts: replacements a worker; 0 where ticks are messages.
        keep_infos: fill `Tick.infos`, as `SequentialVectorEnv` does; infos that are not empty travel pickled.
        on_message: told, in a sentence, of each replacement.

    Raises:
        EnvError: an environment raised, or its process died or hung; names environment, episode, seed, step and
            process.
        SpaceError: environments have different spaces, or spaces without an array form.
    """

    seeds_every_episode = True

    def __init__(
        self,
        env_factories: Sequence[EnvFactory],
        n_processes: int,
        pool: WorkerPool | None = None,
        timeout_seconds: float | None = 60.0,
        max_restarts: int = 0,
        *,
        owns_pool: bool = False,
        keep_infos: bool = False,
        on_message: Callable[[str], None] = _warn,
    ) -> None:
        if not env_factories or n_processes < 1:
            raise RequestError("a vector environment needs at least one environment and one process")
        self.n_envs = len(env_factories)
        self.n_processes = min(n_processes, self.n_envs)
        self.bounds = [self.n_envs * worker // self.n_processes for worker in range(self.n_processes + 1)]
        self._on_message = on_message
        self._max_restarts = max_restarts
        self._collector: RemoteCollector | None = None
        self._seeds: list[list[int]] = [[] for _ in range(self.n_envs)]
        self._groups: dict[PolicyKey, Group] = {}
        self._restarts = [0] * self.n_processes
        if pool is None:
            pool, owns_pool = SubprocessPool(WorkersOptions(count=self.n_processes)), True
        self._own_pool = pool if owns_pool else None
        self.shares_memory = pool.shares_memory
        try:
            self.workers = self._spawn(pool, env_factories, keep_infos, timeout_seconds, max_restarts)
            self._open(max_restarts)
        except BaseException:
            self._close_quietly()
            raise

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        if len(seeds) != self.n_envs:
            raise RequestError(
                "the number of seed sequences is not the number of environments",
                received=str(len(seeds)),
                expected=str(self.n_envs),
            )
        self._seeds = [[int(seed) for seed in sequence] for sequence in seeds]
        if self._by_value:
            return self._merge(self._call_slices("reset_by_value", self._slices(self._seeds)))
        self._progress[:, EPISODE] = -1
        self._begin_tick()
        futures = self._call_slices("reset", self._slices(self._seeds))
        infos, failures = self._collect_infos(futures)
        for worker, error in failures:
            self._replace(worker, error)
            infos.update(self._restore(worker))
        return self._tick(infos)

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        if self._by_value:
            parts = split_actions(actions, self._groups, self.bounds)
            return self._merge(self._call_slices("step_by_value", parts))
        heads = actions[self._key]
        for name, array in self._action.items():
            array[...] = heads[name]
        self._begin_tick()
        infos, failures = self._collect_infos(self.workers.call_all("step"))
        for worker, error in failures:
            self._renew_seeds(worker)
            self._replace(worker, error)
        for worker, _ in failures:
            self._cut_episodes(worker)
        return self._tick(infos)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of each environment's episodes that ended since the last call."""
        drained: list[list[EpisodeStatistics]] = []
        if self._collector is not None:
            self._collector.forget_raw_reward()
        for future in self.workers.call_all("drain_batch_statistics"):
            try:
                drained += future.result()
            except WorkerError as error:
                # A worker that died is found, and replaced, by the next step; its statistics are lost.
                if not error.is_lost:
                    raise
        return drained

    def raw_reward_so_far(self) -> tuple[float, int]:
        """See `TellsRawReward`: of workers that collect by themselves."""
        return (0.0, 0) if self._collector is None else self._collector.raw_reward_so_far()

    # For whoever lets the workers do more than single steps

    @property
    def collects_alone(self) -> bool:
        """The workers can collect rollouts by themselves: no one steps them and no one replaces them."""
        return self.n_processes > 1 and self._max_restarts == 0

    def make_collector(
        self, vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int
    ) -> RolloutCollector | None:
        """A collector that lets the workers collect by themselves; see `CollectsRollouts`."""
        from maze_processes.remote_collector import remote_collector  # imports torch, which steps do not need

        self._collector = remote_collector(self, vector_env, policy, parameters, n_steps)
        return self._collector

    def call_workers(
        self, method: str, arguments: Sequence[Sequence[Any]], timeout_seconds: float | None = None
    ) -> list[Any]:
        """Call an `EnvHost` method on every worker with its arguments; returns their answers.

        Raises:
            EnvError: as `step` does.
        """
        calls = enumerate(arguments)
        futures = [self.workers.call(worker, method, *own, timeout_seconds=timeout_seconds) for worker, own in calls]
        return [self._answer(worker, future) for worker, future in enumerate(futures)]

    def call_until_answered(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker again and again until its answer is not None; raises as `call_workers`."""
        answers: list[Any] = [None] * self.n_processes
        futures = {worker: self.workers.call(worker, method, *arguments) for worker in range(self.n_processes)}
        while futures:
            for future in self.workers.wait_any(list(futures.values())):
                worker = future.actor_index
                answers[worker] = self._answer(worker, future)
                if answers[worker] is None:
                    futures[worker] = self.workers.call(worker, method, *arguments)
                else:
                    del futures[worker]
        return answers

    def _answer(self, worker: int, future: Future) -> Any:
        try:
            return future.result()
        except MazeError as error:
            self._raise(worker, error)

    def render(self) -> Any:
        """A frame of the first environment."""
        return self.workers.call(0, "render").result()

    def close(self) -> None:
        """Close every environment and stop the workers.

        Raises:
            EnvError: an environment's `close` raised, or its process had to be killed.
        """
        try:
            self.workers.close()
        except MazeError as error:
            index = error.actor_index if isinstance(error, WorkerError) else None
            self._raise(0 if index is None else index, error)
        finally:
            if self._own_pool is not None:
                self._own_pool.close()

    # Starting

    def _spawn(
        self,
        pool: WorkerPool,
        env_factories: Sequence[EnvFactory],
        keep_infos: bool,
        timeout_seconds: float | None,
        max_restarts: int,
    ) -> ActorGroup:
        progress = ArraySpec(shape=(self.n_envs, 4), dtype="int64")
        return pool.spawn(
            HostFactory(tuple(env_factories), self.bounds, keep_infos),
            self.n_processes,
            arrays={PROGRESS: progress} if pool.shares_memory else None,
            restart=RestartPolicy(max_restarts=max_restarts),
            timeout_seconds=timeout_seconds,
        )

    def _open(self, max_restarts: int) -> None:
        self._progress: Any = self.workers.arrays.get(PROGRESS)
        built = [self._build(worker, future) for worker, future in enumerate(self.workers.call_all("build"))]
        self.structured_spaces = check_same_spaces(built)
        self._by_value = not (self.shares_memory and self.structured_spaces.is_flat)
        if self._by_value:
            if max_restarts:
                raise RequestError(
                    "workers of structured environments cannot be replaced yet, nor can those without shared memory",
                    help="set max_restarts to 0",
                )
            return
        (self._key,) = self.structured_spaces.policy_keys
        self.workers.share(array_specs(self.structured_spaces, self.n_envs))
        arrays = self.workers.arrays
        self._parity = arrays["parity"]
        self._action = by_prefix(arrays, "action")
        self._final = by_prefix(arrays, "final")
        self._reward, self._terminated, self._truncated = arrays["reward"], arrays["terminated"], arrays["truncated"]
        halves = by_prefix(arrays, "observation")
        self._observation = [{name: array[half] for name, array in halves.items()} for half in range(2)]
        self._env_index = np.arange(self.n_envs)
        self._agent_id = np.zeros(self.n_envs, np.int64)

    # Ticks

    def _begin_tick(self) -> None:
        self._parity[0] ^= 1

    def _collect_infos(self, futures: Sequence[Future]) -> tuple[dict[int, Any], list[tuple[int, MazeError]]]:
        """Wait for every worker, also when one of them fails."""
        infos: dict[int, Any] = {}
        failures = []
        for worker, future in enumerate(futures):
            try:
                infos.update(future.result() or {})
            except MazeError as error:
                failures.append((worker, error))
        return infos, failures

    def _tick(self, infos: dict[int, dict[str, Any]]) -> Tick:
        half = int(self._parity[0])
        terminated, truncated = self._terminated[half], self._truncated[half]
        group = Group(self._env_index, self._agent_id, dict(self._observation[half]))
        tick = Tick({self._key: group}, self._reward[half], terminated, truncated, infos=infos)
        ended = terminated | truncated
        if ended.any():
            index = np.flatnonzero(ended)
            final = {name: array[index] for name, array in self._final.items()}
            tick.final_observation[self._key] = FinalObservation(index, final)
        return tick

    def _merge(self, futures: Sequence[Future]) -> Tick:
        ticks: list[Tick] = []
        failure: tuple[int, MazeError] | None = None
        for worker, future in enumerate(futures):
            try:
                ticks.append(future.result())
            except MazeError as error:
                failure = failure or (worker, error)
        if failure is not None:
            self._raise(*failure)
        tick = merge_ticks(ticks, self.bounds, self.structured_spaces)
        self._groups = dict(tick.groups)
        return tick

    def _slices(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        return [values[first:last] for first, last in zip(self.bounds, self.bounds[1:], strict=False)]

    def _call_slices(self, method: str, parts: Sequence[Any]) -> list[Future]:
        return [self.workers.call(worker, method, part) for worker, part in enumerate(parts)]

    # Workers that died

    def _replace(self, worker: int, error: MazeError) -> None:
        """Say that a replacement is on its way, or raise: the worker lives, or has used up its restarts."""
        died = isinstance(error, WorkerError) and error.is_lost
        if not died or self.workers.restarts(worker) == self._restarts[worker]:
            self._raise(worker, error)
        self._restarts[worker] = self.workers.restarts(worker)
        self._on_message(f"{error.what}: {self._describe(worker)}; its environments start again in a new process")

    def _build(self, worker: int, future: Future) -> StructuredSpaces:
        while True:
            try:
                spaces: StructuredSpaces = future.result()
                return spaces
            except MazeError as error:
                self._replace(worker, error)
                future = self.workers.call(worker, "build")

    def _restore(self, worker: int) -> dict[int, Any]:
        """Rebuild the environments of a replaced worker and start their next episodes; returns infos."""
        while True:
            self._build(worker, self.workers.call(worker, "build"))
            try:
                infos = self.workers.call(worker, "reset", self._slices(self._seeds)[worker]).result()
                return infos or {}
            except MazeError as error:
                self._replace(worker, error)

    def _renew_seeds(self, worker: int) -> None:
        """Seeds for the episodes after the one each environment of the worker is in."""
        for index in range(self.bounds[worker], self.bounds[worker + 1]):
            episode, own = int(self._progress[index, EPISODE]), self._seeds[index]
            if own[episode + 1 :] or not own:
                self._seeds[index] = own[episode + 1 :]
            else:
                words = np.random.SeedSequence((own[-1], episode + 1)).generate_state(1)
                self._seeds[index] = [int(words[0]) >> 1]

    def _cut_episodes(self, worker: int) -> None:
        """The tick of a worker that died: every episode truncated where it was last seen, then the next one."""
        half = int(self._parity[0])
        rows = slice(self.bounds[worker], self.bounds[worker + 1])
        for name, array in self._observation[1 - half].items():
            self._final[name][rows] = array[rows]
        self._restore(worker)
        self._truncated[half, rows] = True

    # Errors

    def _close_quietly(self) -> None:
        with contextlib.suppress(MazeError, AttributeError):
            self.workers.close()
        if self._own_pool is not None:
            with contextlib.suppress(MazeError):
                self._own_pool.close()

    def _describe(self, worker: int) -> str:
        first, last = self.bounds[worker], self.bounds[worker + 1]
        if self._progress is None:
            return f"environments {first} to {last - 1}"
        return describe_progress(self._progress[first:last], first)

    def _seed_of(self, worker: int) -> int | None:
        """The seed that the first busy environment of a worker plays."""
        if self._progress is None:
            return None
        rows = self._progress[self.bounds[worker] : self.bounds[worker + 1]]
        busy = rows[rows[:, PHASE] != 0]
        return int(busy[0, SEED]) if len(busy) and busy[0, SEED] >= 0 else None

    def _raise(self, worker: int, error: MazeError) -> NoReturn:
        cause = error if isinstance(error, WorkerError) else error.__cause__
        if not isinstance(cause, WorkerError):
            raise error
        if error is cause:
            raised = EnvError(
                error.what, owner=self._describe(worker), help=error.help, remote_traceback=error.remote_traceback
            )
            raised.seed = self._seed_of(worker)
            raise raised from error
        if isinstance(error, EnvError) and cause.process_id is not None:
            error.owner = f"{error.owner}, process {cause.process_id}"
            error.remote_traceback = cause.remote_traceback
        raise error
