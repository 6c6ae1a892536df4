"""Evaluation: the same episodes every time, on environments of their own, with frozen transforms.

Environments are stepped one after the other with a seed each, so a result does not depend on how they are
batched; only vector modes that ask for it, as "native" does, evaluate too. A parallel pool plays them in parallel.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from maze_kernel.catalog import build
from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.transform import Transform
from maze_kernel.selection import Selection
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.rollout.episode_statistics import summarize_episodes
from maze_runtime.run.assembly import Assembly, load_transforms
from maze_runtime.run.batch_factory import wrap_batch
from maze_runtime.run.env_factory import EnvFactory
from maze_runtime.workers.repeatable import result_or_again

if TYPE_CHECKING:
    from maze_kernel.contracts.model import ActorCritic
    from maze_kernel.contracts.trainer import Statistics
    from maze_kernel.contracts.vector import VectorEnv
    from maze_kernel.contracts.workers import ActorContext, ActorGroup, Future, WorkerPool
    from maze_runtime.rollout.episodes import EpisodeResult

MEAN_REWARD = "BaseEnvEvents/reward/mean"
"""What selects the best model where neither experiment nor trainer says anything else."""

EPISODE_COUNT = "BaseEnvEvents/episode_count"

EPISODE_TAGS = (
    MEAN_REWARD,
    "BaseEnvEvents/reward/std",
    "BaseEnvEvents/reward/min",
    "BaseEnvEvents/reward/max",
    "BaseEnvEvents/reward/median",
    "BaseEnvEvents/episode_length/mean",
    "BaseEnvEvents/episode_length/median",
    EPISODE_COUNT,
)
"""What every evaluation measures, and so what `[evaluation] metric` may always name."""


def episode_statistics(results: Sequence[EpisodeResult]) -> Statistics:
    """Statistics of finished episodes, keys as in `EPISODE_TAGS`."""
    return summarize_episodes(
        np.array([result.total_reward for result in results], np.float64),
        np.array([result.length for result in results], np.int64),
    )


class Evaluator:
    """Plays the evaluation episodes of one run.

    Args:
        assembly: of the run.
        pool: where the episodes are played in parallel; None: in this process.

    Attributes:
        events: of the episodes that were played.
    """

    def __init__(self, assembly: Assembly, pool: WorkerPool | None = None) -> None:
        options = assembly.experiment.evaluation
        self._assembly = assembly
        self._seeds = assembly.seeds.seeds(options.n_episodes, "evaluation", "episodes")
        self._deterministic = options.deterministic
        self._policy_seed = assembly.seeds.seed("evaluation", "policy")
        self._pool = pool
        self._group: ActorGroup | None = None
        self._version = 0
        self._local: EvaluationPlayer | None = None
        self.events = EpochAggregator()

    def __call__(self, model: ActorCritic) -> Statistics:
        """Statistics of the episodes played with these weights; the model's mode is left as it was."""
        results = self.play(model)
        self.events.add_episodes(result.events for result in results if result.events)
        return {**episode_statistics(results), **self.events.reduce()}

    def play(self, model: ActorCritic) -> list[EpisodeResult]:
        """The episodes themselves, in the order of their seeds."""
        states = self._assembly.transform_states()
        if self._pool is None:
            if self._local is None:
                self._local = self._player_factory()(model)
            return self._local.play(self._seeds, self._policy_seed, self._deterministic, states)
        return self._play_in_pool(model, states)

    def close(self) -> None:
        """Close the evaluation environments."""
        if self._local is not None:
            self._local.close()
        if self._group is not None:
            self._group.close()

    def _play_in_pool(self, model: ActorCritic, states: list[dict[str, Any]]) -> list[EpisodeResult]:
        from maze_runtime.models.flat_state import pack_state

        group = self._group = self._group or self._spawn(model)
        self._version += 1
        group.broadcast(pack_state(model), self._version)

        def call(index: int) -> Future:
            seeds, policy_seed = self._seeds[index :: group.n_actors], self._policy_seed + index
            return group.call(index, "play", seeds, policy_seed, self._deterministic, states)

        results: list[EpisodeResult | None] = [None] * len(self._seeds)
        for index, future in enumerate([call(index) for index in range(group.n_actors)]):
            results[index :: group.n_actors] = result_or_again(future, partial(call, index))
        return [result for result in results if result is not None]

    def _spawn(self, model: ActorCritic) -> ActorGroup:
        """Actors that play while the trainer waits for them."""
        assert self._pool is not None
        on_cpu: Any = copy.deepcopy(model)
        factory = partial(_PlayerActor, self._player_factory(), on_cpu.to("cpu"))
        return self._pool.spawn(factory, min(self._pool.n_workers, len(self._seeds)), light=True)

    def _player_factory(self) -> Callable[..., EvaluationPlayer]:
        make: Callable[[int], VectorEnv] = partial(_sequential, self._assembly.env_factory(training=False))
        if self._assembly.evaluates_in_mode and self._pool is None:
            make = self._assembly.batch_factory(training=False).raw
        return partial(EvaluationPlayer, make, self._assembly.transform_selections, self._assembly.policy_wrapper)


class EvaluationPlayer:
    """Plays episodes with one model on environments that it keeps."""

    def __init__(
        self,
        make_vector_env: Callable[[int], VectorEnv],
        transforms: Sequence[Selection],
        policy_wrapper: Selection | None,
        model: ActorCritic,
    ) -> None:
        self._make_vector_env = make_vector_env
        self._transforms: list[Transform] = [build(selection) for selection in transforms]
        self._policy_wrapper = policy_wrapper
        self._model = model
        self._vector_env: VectorEnv | None = None

    def play(
        self, seeds: Sequence[int], policy_seed: int, deterministic: bool, states: Sequence[Mapping[str, Any]]
    ) -> list[EpisodeResult]:
        """One episode a seed, each in an environment of its own."""
        from maze_runtime.models.policy_wrapper import wrap_policy
        from maze_runtime.rollout.episodes import run_episodes

        if self._vector_env is None:
            self._vector_env = wrap_batch(self._make_vector_env(len(seeds)), self._transforms, training=False)
        load_transforms(self._transforms, states)
        module: Any = self._model
        was_training = module.training
        module.eval()
        try:
            policy = wrap_policy(self._model.make_policy(policy_seed), self._policy_wrapper)
            results = run_episodes(self._vector_env, policy, seeds, deterministic=deterministic)
            return _with_events(results, self._vector_env)
        finally:
            module.train(was_training)

    def close(self) -> None:
        """Close the environments."""
        if self._vector_env is not None:
            self._vector_env.close()


class _PlayerActor:
    """An `EvaluationPlayer` in a worker; the weights come by broadcast."""

    def __init__(self, make_player: Callable[..., EvaluationPlayer], model: ActorCritic, _: ActorContext) -> None:
        self._model: Any = copy.deepcopy(model)  # several actors may live in one process
        self._player = make_player(self._model)

    def load_weights(self, flat: np.ndarray, _version: int) -> None:
        from maze_runtime.models.flat_state import unpack_state

        unpack_state(self._model, flat)

    def play(self, *args: Any) -> list[EpisodeResult]:
        return self._player.play(*args)

    def close(self) -> None:
        self._player.close()


def _with_events(results: list[EpisodeResult], vector_env: VectorEnv) -> list[EpisodeResult]:
    """The results with the event statistics of their episodes; environment i has played result i first."""
    batch = capability(vector_env, ReportsBatchStatistics)  # type: ignore[type-abstract]
    if batch is None:
        return results
    episodes = batch.drain_batch_statistics()
    return [
        attrs.evolve(result, events=own[0]) if own else result for result, own in zip(results, episodes, strict=True)
    ]


def _sequential(env_factory: EnvFactory, n_envs: int) -> VectorEnv:
    from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

    return SequentialVectorEnv([env_factory] * n_envs)


@attrs.frozen
class Metric:
    """The statistic that selects the best model, looked up among an epoch's evaluation and training statistics."""

    tag: str
    minimize: bool = False

    @classmethod
    def parse(cls, text: str) -> Metric:
        """A tag, with a minus before it where less is better."""
        return cls(text.removeprefix("-"), text.startswith("-"))

    @property
    def of_training(self) -> bool:
        """Whether every epoch has it, evaluated or not."""
        return self.tag.startswith("train_")

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value is finite and beats the best so far."""
        if not np.isfinite(value) or best is None:
            return bool(np.isfinite(value))
        return value < best if self.minimize else value > best

    def check_name(self) -> None:
        """Refuse a misspelt base statistic before training starts; others are known after the first evaluation."""
        is_base = self.tag.startswith("BaseEnvEvents/") and not self.tag.startswith("BaseEnvEvents/kpi/")
        if is_base and self.tag not in EPISODE_TAGS:
            raise unknown_metric(self.tag, EPISODE_TAGS)

    def of(self, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> float | None:
        """The value this epoch; None in an epoch without it.

        Raises:
            RequestError: an evaluation took place and there is no such statistic.
        """
        prefix, _, bare = self.tag.partition("_")
        if prefix in ("train", "eval") and "Events/" in bare:
            source = train if prefix == "train" else evaluation
            value = None if source is None else source.get(bare)
        else:
            value = (train if evaluation is None else evaluation).get(self.tag)
        if value is None and evaluation is not None:
            raise unknown_metric(self.tag, [*evaluation, *(f"train_{tag}" for tag in train)])
        return None if value is None else float(value)


def unknown_metric(tag: str, known: Sequence[str]) -> Exception:
    """The error that names the statistics closest to a misspelt one."""
    from maze_kernel.catalog import nearest
    from maze_kernel.errors import RequestError

    return RequestError(
        f"no statistic is called {tag!r}",
        received=f"[evaluation] metric = {tag!r}",
        nearest=nearest(tag, known),
        help="name an evaluation statistic without its prefix, or a training one with 'train_'",
    )
