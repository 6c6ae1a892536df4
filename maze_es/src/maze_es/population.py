"""Plays antithetic pairs, here or on the worker pool. Only indices, seeds and returns travel to workers and back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import attrs
import numpy as np
import torch

from maze_es.members import MemberPolicy, MemberRelay
from maze_es.noise import Noise, NoiseTable, SeededVectors, fill_table
from maze_es.options import ESOptions, TableNoise
from maze_kernel.contracts.capabilities import SeedsEveryEpisode, capability
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.contracts.workers import ActorContext, ActorGroup, GroupOptions, WorkerPool
from maze_kernel.errors import RequestError
from maze_runtime.models.flat_parameters import FlatParameters, train_policy_only
from maze_runtime.models.policy_wrapper import wrap_policy
from maze_runtime.rollout.episodes import EpisodeResult, run_episodes
from maze_runtime.rollout.shared_statistics import Partials, RunStatistics, SharedStatistics, WorkersStatistics
from maze_runtime.workers.repeatable import result_or_again

AddEvents = Callable[[Iterable[EpisodeStatistics]], None]
"""Takes the event statistics of episodes."""
_TABLE = "noise_table"


@attrs.frozen(kw_only=True)
class Pairs:
    """What is to be played: M pairs.

    Attributes:
        noise_indices: (M,) int64.
        env_seeds: (M,) int64, one a pair: both halves meet the same episode. Equal ones with `same_episode`.
        policy_seed: of the action samples.
        noise_stddev: σ.
    """

    noise_indices: np.ndarray
    env_seeds: np.ndarray
    policy_seed: int
    noise_stddev: float


@attrs.frozen(kw_only=True)
class PairReturns:
    """What came of it: returns (2, M) float64 and lengths (2, M) int64; first row θ + σε, second row θ − σε."""

    returns: np.ndarray
    lengths: np.ndarray


class Population(Protocol):
    """Plays pairs around a centre."""

    @property
    def noise(self) -> Noise:
        """Perturbations by index."""
        ...

    def play(self, center: np.ndarray, pairs: Pairs) -> PairReturns:
        """One episode a member; `center` is (P,) float32."""
        ...

    def close(self) -> None: ...


def policy_parameters(model: ActorCritic) -> FlatParameters:
    """The weights that acting needs, in one flat buffer; critics are left alone and need no gradient."""
    train_policy_only(model)
    return FlatParameters(model)  # type: ignore[arg-type]


def make_noise(options: ESOptions, n_weights: int, seed: int, table: np.ndarray | None = None) -> Noise:
    """Noise as the options say; `table` is one that was filled before."""
    if not isinstance(options.noise, TableNoise):
        return SeededVectors(n_weights)
    if table is not None:
        return NoiseTable(table, n_weights)
    table = np.empty(options.noise.size, np.float32)
    noise = NoiseTable(table, n_weights)
    fill_table(table, seed)
    return noise


class LocalPopulation:
    """Plays in this process, on one batch of N environments.

    Where every episode can have its own seed, an environment that ends one is handed to the next member at once.
    Else (natively vectorised environments read one seed, `max_steps` needs resets) N pairs play at a time, first
    one half, then the other, each from a reset with the same seeds. Either way both halves of a pair meet the same
    episode; in the second way they also share the stream of action samples. With `halves_together` N / 2 pairs play
    at a time, both halves in one batch, and where the batch reads one seed every member meets an episode of its own.

    Running statistics stay as they are while members play, so that all are measured alike; `statistics` has what they
    saw.

    Args:
        model, flat: the architecture.
        vector_env: closed with this object.
        noise: perturbations by index.
        options: of the trainer.
        add_events: takes the event statistics of the members' episodes; those of rows without a member, and of rows
            that play on until the last one is done, are dropped.
        shared: brought up to date by each `play`; None: whoever calls takes `statistics`.

    Raises:
        RequestError: all members are to meet the same episode, and the batch gives every row one of its own.
    """

    def __init__(
        self,
        model: ActorCritic,
        flat: FlatParameters,
        vector_env: VectorEnv,
        noise: Noise,
        options: ESOptions,
        add_events: AddEvents,
        shared: SharedStatistics | None = None,
    ) -> None:
        self.noise = noise
        self._shared = shared
        self._add_events = add_events
        self._vector_env = vector_env
        self._options = options
        seeds_every_episode = _seeds_every_episode(vector_env)
        if options.same_episode and not seeds_every_episode:
            vector_env.close()
            raise _no_same_episode()
        self._members = MemberPolicy(model, flat, vector_env.n_envs)
        self._policy = wrap_policy(self._members, options.policy_wrapper)
        self._in_relay = not options.max_steps and seeds_every_episode
        self.statistics = WorkersStatistics(getattr(vector_env, "transforms", ()), holds=True)

    def play(self, center: np.ndarray, pairs: Pairs) -> PairReturns:
        """See `Population.play`."""
        results = self._play_in_relay(center, pairs) if self._in_relay else self._play_in_waves(center, pairs)
        self._add_events([result.events for result in results if result.events is not None])
        if self._shared is not None:
            self._shared.merge([self.statistics.take()])
        returns = np.array([result.total_reward for result in results], np.float64).reshape(2, -1)
        lengths = np.array([result.length for result in results], np.int64).reshape(2, -1)
        return PairReturns(returns=returns, lengths=lengths)

    def _play_in_relay(self, center: np.ndarray, pairs: Pairs) -> list[EpisodeResult]:
        n_pairs, stddev = len(pairs.env_seeds), np.float32(pairs.noise_stddev)

        def weights(members: np.ndarray) -> np.ndarray:
            signs = np.where(members < n_pairs, stddev, -stddev)[:, None]
            members_weights: np.ndarray = center + signs * self.noise.vectors(pairs.noise_indices[members % n_pairs])
            return members_weights

        self._policy.seed(pairs.policy_seed)
        relay = MemberRelay(self._members, self._policy, weights, 2 * n_pairs, self._vector_env.n_envs)
        seeds = [int(seed) for seed in np.tile(pairs.env_seeds, 2)]
        return run_episodes(self._vector_env, relay, seeds, deterministic=self._options.deterministic, with_events=True)

    def _play_in_waves(self, center: np.ndarray, pairs: Pairs) -> list[EpisodeResult]:
        together = self._options.halves_together and self._vector_env.n_envs > 1
        n_pairs = self._vector_env.n_envs // 2 if together else self._vector_env.n_envs
        halves: tuple[list[EpisodeResult], list[EpisodeResult]] = ([], [])
        for start in range(0, len(pairs.env_seeds), n_pairs):
            rows = slice(start, start + n_pairs)
            scaled = np.float32(pairs.noise_stddev) * self.noise.vectors(pairs.noise_indices[rows])
            seeds, policy_seed = pairs.env_seeds[rows].tolist(), pairs.policy_seed + start
            if together:
                results = self._play_wave(center + np.concatenate([scaled, -scaled]), 2 * seeds, policy_seed)
                halves[0].extend(results[: len(seeds)])
                halves[1].extend(results[len(seeds) :])
                continue
            for half, perturbation in zip(halves, (scaled, -scaled), strict=True):
                half.extend(self._play_wave(center + perturbation, seeds, policy_seed))
        return halves[0] + halves[1]

    def _play_wave(self, weights: np.ndarray, seeds: list[int], policy_seed: int) -> list[EpisodeResult]:
        """An episode for each row of weights, all from one reset."""
        self._members.load(_fill_rows(weights, self._vector_env.n_envs))
        self._policy.seed(policy_seed)
        return run_episodes(
            self._vector_env,
            self._policy,
            seeds,
            deterministic=self._options.deterministic,
            max_steps=self._options.max_steps or None,
            with_events=True,
        )

    def close(self) -> None:
        """Close the environments."""
        self._vector_env.close()


def _seeds_every_episode(vector_env: VectorEnv) -> bool:
    """Whether the batch reads the seeds of successive episodes; of one that does not say it is not assumed."""
    batch = capability(vector_env, SeedsEveryEpisode)  # type: ignore[type-abstract]
    return batch is not None and batch.seeds_every_episode


def _no_same_episode() -> RequestError:
    return RequestError(
        "trainer.same_episode needs environments that are seeded one by one; a native batch reads one seed for all",
        owner="maze-es",
        help='set [vector] mode = "sequential" ("subprocess" without a [workers] table), or leave same_episode out',
    )


def _fill_rows(weights: np.ndarray, n_rows: int) -> np.ndarray:
    """Repeat the first member in rows that have none, (n_rows, P)."""
    missing = n_rows - len(weights)
    return weights if missing == 0 else np.concatenate([weights, np.repeat(weights[:1], missing, axis=0)])


class PooledPopulation:
    """Plays on workers, each with a batch of environments of its own; a share of the pairs each, always the same one.

    Workers start at the first use, when wrappers have their statistics. A call that a dying worker took with it is
    made again on its replacement, if the pool gives one.
    """

    def __init__(
        self,
        make_pool: Callable[[], WorkerPool],
        model: ActorCritic,
        make_vector_env: Callable[[], VectorEnv],
        options: ESOptions,
        seed: int,
        add_events: AddEvents,
        statistics: SharedStatistics,
    ) -> None:
        self._add_events = add_events
        self._statistics = statistics
        self._make_pool = make_pool
        self._model = model
        self._make_vector_env = make_vector_env
        self._options = options
        self._seed = seed
        self._pool: WorkerPool | None = None
        self._version = 0

    @cached_property
    def noise(self) -> Noise:
        """Perturbations by index; a table is a constant of the workers, so a machine has it once."""
        on_cpu: Any = copy.deepcopy(self._model).to(torch.device("cpu"))  # type: ignore[attr-defined]
        n_weights = len(policy_parameters(on_cpu).data)
        noise = make_noise(self._options, n_weights, self._seed)
        constants = {_TABLE: noise.table} if isinstance(noise, NoiseTable) else {}
        self._pool = self._make_pool()
        factory = partial(_PopulationActor, on_cpu, self._make_vector_env, self._options, self._seed)
        self._group: ActorGroup = self._pool.spawn(factory, self._pool.n_workers, GroupOptions(constants=constants))
        return make_noise(self._options, n_weights, self._seed, self._group.constants.get(_TABLE))

    def play(self, center: np.ndarray, pairs: Pairs) -> PairReturns:
        """See `Population.play`."""
        self._version += 1
        self._group.broadcast(center, self._version)
        shares, stddev = np.array_split(np.arange(len(pairs.env_seeds)), self._group.n_actors), pairs.noise_stddev
        told = self._statistics.now()
        calls = [
            (index, (pairs.noise_indices[rows], pairs.env_seeds[rows], pairs.policy_seed + int(rows[0]), stddev, told))
            for index, rows in enumerate(shares)
            if len(rows)
        ]
        futures = [self._group.call(index, "play", *arguments) for index, arguments in calls]
        parts = [
            result_or_again(future, partial(self._group.call, index, "play", *arguments))
            for future, (index, arguments) in zip(futures, calls, strict=True)
        ]
        for part in parts:
            self._add_events(part.events)
        self._statistics.merge([part.partials for part in parts])
        return PairReturns(
            returns=np.concatenate([part.returns for part in parts], axis=1),
            lengths=np.concatenate([part.lengths for part in parts], axis=1),
        )

    def close(self) -> None:
        """Stop the workers."""
        if self._pool is not None:
            self._pool.close()


class _Share(NamedTuple):
    """What a worker's pairs earned, the event statistics of their episodes, what its running statistics saw."""

    returns: np.ndarray
    lengths: np.ndarray
    events: list[EpisodeStatistics]
    partials: Partials


class _PopulationActor:
    """A `LocalPopulation` in a worker; its centre comes by broadcast."""

    def __init__(
        self,
        model: ActorCritic,
        make_vector_env: Callable[[], VectorEnv],
        options: ESOptions,
        seed: int,
        context: ActorContext,
    ) -> None:
        self._model = copy.deepcopy(model)  # several actors may live in one process
        self._options = options
        self._seed = seed
        self._table = context.constants.get(_TABLE)
        self._vector_env = make_vector_env()
        self._population: LocalPopulation | None = None
        self._events: list[EpisodeStatistics] = []
        self._center = np.empty(0, np.float32)

    def load_weights(self, flat: np.ndarray, version: int) -> None:
        self._center = flat

    def play(
        self,
        noise_indices: np.ndarray,
        env_seeds: np.ndarray,
        policy_seed: int,
        noise_stddev: float,
        told: RunStatistics | None,
    ) -> _Share:
        pairs = Pairs(
            noise_indices=noise_indices, env_seeds=env_seeds, policy_seed=policy_seed, noise_stddev=noise_stddev
        )
        self._population = self._population or self._make_population()
        self._population.statistics.begin(told)
        outcome = self._population.play(self._center, pairs)
        events, self._events[:] = list(self._events), []
        return _Share(outcome.returns, outcome.lengths, events, self._population.statistics.take())

    def _make_population(self) -> LocalPopulation:
        """Not in the constructor: what it refuses would be tried again in each replacement."""
        flat = policy_parameters(self._model)
        noise = make_noise(self._options, len(flat.data), self._seed, self._table)
        return LocalPopulation(self._model, flat, self._vector_env, noise, self._options, self._events.extend)

    def close(self) -> None:
        self._vector_env.close()
