"""The subprocess vector environment: several environments a worker, one exchange of arrays a step.

For the same environments and seeds it gives the transitions of `SequentialVectorEnv`, bit for bit. Flat
environments exchange actions, observations, rewards and flags through shared arrays (`shared_ticks`) and pickle
nothing; structured ones, and all on a pool without shared memory, send each worker's tick as a message
(`structured_merge`). The workers themselves are those of `env_workers`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.vector import ArrayDict, Group, Tick
from maze_kernel.contracts.workers import Future, WorkerPool
from maze_kernel.errors import MazeError, MazeWarning, RequestError, WorkerError
from maze_processes.env_workers import EnvWorkers
from maze_processes.pool import SubprocessPool
from maze_processes.progress import EnvFactory
from maze_processes.shared_ticks import SharedTicks, array_specs
from maze_processes.structured_merge import merge_ticks, split_actions
from maze_runtime.env.batching import check_same_spaces
from maze_runtime.rollout.batch_notes import notes_of_idle
from maze_runtime.workers.options import WorkersOptions

if TYPE_CHECKING:
    from maze_kernel.contracts.model import Policy
    from maze_kernel.contracts.vector import VectorEnv
    from maze_runtime.models.flat_parameters import FlatParameters
    from maze_runtime.rollout.collector import RolloutCollector
    from maze_runtime.rollout.remote_collector import RemoteCollector


def _warn(text: str) -> None:
    warnings.warn(text, MazeWarning, stacklevel=2)


class SubprocessVectorEnv:
    """Implements `VectorEnv` on the actors of a worker pool, with same-step autoreset.

    Buffers are double: a tick's arrays stay as they are during the next call and are overwritten by the one after.

    A worker that dies or does not answer in time is replaced `max_restarts` times. The episodes it was in are
    reported as truncated with reward 0, their last observation seen as the final one, and new episodes begin
    with seeds derived from the old ones. An environment that merely raises always stops with its error: it would
    raise again.

    Attributes:
        seeds_every_episode: see `SeedsEveryEpisode`.
        notes: see `HasNotes`.
        workers: hold the environments.

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
        self.notes = notes_of_idle(n_processes, self.n_envs, "[vector] n_processes")
        self.n_processes = min(n_processes, self.n_envs)
        self._collector: RemoteCollector | None = None
        self._seeds: list[list[int]] = [[] for _ in range(self.n_envs)]
        self._groups: dict[PolicyKey, Group] = {}
        if pool is None:
            pool, owns_pool = SubprocessPool(WorkersOptions(count=self.n_processes)), True
        self._own_pool = pool if owns_pool else None
        with contextlib.ExitStack() as on_failure:
            if self._own_pool is not None:
                on_failure.callback(_close_quietly, self._own_pool)
            self.workers = EnvWorkers(
                pool,
                env_factories,
                self.n_processes,
                keep_infos=keep_infos,
                timeout_seconds=timeout_seconds,
                max_restarts=max_restarts,
                on_message=on_message,
            )
            on_failure.callback(_close_quietly, self.workers)
            self._open()
            on_failure.pop_all()

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere; see `VectorEnv.reset`."""
        if len(seeds) != self.n_envs:
            raise RequestError(
                "the number of seed sequences is not the number of environments",
                received=str(len(seeds)),
                expected=str(self.n_envs),
            )
        self._seeds = [[int(seed) for seed in sequence] for sequence in seeds]
        slices = [(self.workers.slice(worker, self._seeds),) for worker in range(self.n_processes)]
        if self._by_value:
            return self._merge(self.workers.call("reset_by_value", slices))
        self.workers.progress.begin()
        self._ticks.begin()
        infos, failures = self._collect_infos(self.workers.call("reset", slices))
        for worker, error in failures:
            self.workers.replace(worker, error)
            infos.update(self._restore(worker))
        return self._ticks.read(infos)

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere; see `VectorEnv.step`."""
        if self._by_value:
            parts = split_actions(actions, self._groups, self.workers.bounds)
            return self._merge(self.workers.call("step_by_value", [(part,) for part in parts]))
        self._ticks.write_actions(actions[self._ticks.policy_key])
        self._ticks.begin()
        infos, failures = self._collect_infos(self.workers.group.call_all("step"))
        for worker, error in failures:
            self._renew_seeds(worker)
            self.workers.replace(worker, error)
        for worker, _ in failures:
            self._cut_episodes(worker)
        return self._ticks.read(infos)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of each environment's episodes that ended since the last call."""
        drained: list[list[EpisodeStatistics]] = []
        if self._collector is not None:
            self._collector.forget_raw_reward()
        for future in self.workers.group.call_all("drain_batch_statistics"):
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

    def make_collector(
        self, vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int
    ) -> RolloutCollector | None:
        """A collector that lets the workers collect by themselves; see `CollectsRollouts`."""
        from maze_processes.remote_collector import remote_collector  # imports torch, which steps do not need

        self._collector = remote_collector(self.workers, vector_env, policy, parameters, n_steps)
        return self._collector

    def render(self) -> Any:
        """A frame of the first environment."""
        return self.workers.group.call(0, "render").result()

    def close(self) -> None:
        """Close every environment and stop the workers.

        Raises:
            EnvError: an environment's `close` raised, or its process had to be killed.
        """
        try:
            self.workers.close()
        finally:
            if self._own_pool is not None:
                self._own_pool.close()

    def _open(self) -> None:
        self.structured_spaces = check_same_spaces(self.workers.build_all())
        self._by_value = not (self.workers.shares_memory and self.structured_spaces.is_flat)
        if not self._by_value:
            self.workers.group.share(array_specs(self.structured_spaces, self.n_envs))
            self._ticks = SharedTicks(self.workers.group.arrays, self.structured_spaces, self.n_envs)
        elif self.workers.max_restarts:
            raise RequestError(
                "workers of structured environments cannot be replaced yet, nor can those without shared memory",
                help="set max_restarts to 0",
            )

    # Ticks

    def _collect_infos(self, futures: Sequence[Future]) -> tuple[dict[int, Any], list[tuple[int, MazeError]]]:
        """Infos by environment, and failures by worker."""
        answers, failures = self.workers.wait_for_all(futures)
        return {index: info for infos in answers.values() for index, info in (infos or {}).items()}, failures

    def _merge(self, futures: Sequence[Future]) -> Tick:
        ticks, failures = self.workers.wait_for_all(futures)
        if failures:
            self.workers.fail(*failures[0])
        tick = merge_ticks(list(ticks.values()), self.workers.bounds, self.structured_spaces)
        self._groups = dict(tick.groups)
        return tick

    # Workers that died

    def _restore(self, worker: int) -> dict[int, Any]:
        """Rebuild the environments of a replaced worker and start their next episodes; returns infos."""
        while True:
            self.workers.build(worker)
            try:
                seeds = self.workers.slice(worker, self._seeds)
                infos = self.workers.group.call(worker, "reset", seeds).result()
                return infos or {}
            except MazeError as error:
                self.workers.replace(worker, error)

    def _renew_seeds(self, worker: int) -> None:
        """Seeds for the episodes after the one each environment of the worker is in."""
        for index in range(*self.workers.bounds[worker : worker + 2]):
            self._seeds[index] = self.workers.progress.next_seeds(index, self._seeds[index])

    def _cut_episodes(self, worker: int) -> None:
        """The tick of a worker that died: every episode truncated where it was last seen, then the next one."""
        rows = slice(*self.workers.bounds[worker : worker + 2])
        self._ticks.end_where_last_seen(rows)
        self._restore(worker)
        self._ticks.truncate(rows)


def _close_quietly(opened: EnvWorkers | WorkerPool) -> None:
    """Close what was opened before something failed that is raised already."""
    with contextlib.suppress(MazeError):
        opened.close()
