"""Evaluation: the same episodes every time, on environments of their own, with frozen transforms.

Environments are stepped one after the other with a seed each, so a result does not depend on how they are
batched; only vector modes that ask for it, as "native" does, evaluate too. A parallel pool plays them in parallel.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_kernel.catalog import build
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.workers import GroupOptions
from maze_kernel.selection import Selection
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.rollout.episode_statistics import summarize_episodes
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.batch_factory import wrap_batch
from maze_runtime.run.env_factory import EnvFactory
from maze_runtime.run.evaluators import MAIN, EvaluationSide, evaluators_of, load_statistics
from maze_runtime.training.metric import known_names
from maze_runtime.workers.repeatable import result_or_again

if TYPE_CHECKING:
    from maze_kernel.contracts.model import ActorCritic
    from maze_kernel.contracts.trainer import Statistics
    from maze_kernel.contracts.vector import VectorEnv
    from maze_kernel.contracts.workers import ActorContext, ActorGroup, Future, WorkerPool
    from maze_runtime.models.acting_copy import ActingCopy
    from maze_runtime.rollout.episodes import EpisodeResult
    from maze_runtime.training.checkpoint import LoopState
    from maze_runtime.training.metric import Metric


def episode_statistics(results: Sequence[EpisodeResult]) -> Statistics:
    """Statistics of finished episodes, keys as in `maze_runtime.training.metric.EPISODE_TAGS`."""
    return summarize_episodes(
        np.array([result.total_reward for result in results], np.float64),
        np.array([result.length for result in results], np.int64),
    )


class Evaluator:
    """Plays the episodes of one of a run's evaluators.

    Args:
        assembly: of the run.
        pool: where the episodes are played in parallel; None: in this process.
        name: of the evaluator; "evaluation" is what the table `[evaluation]` itself says.

    Attributes:
        events: of the episodes that were played.
        every_epochs: how often it is asked.

    Raises:
        MazeError: its environment cannot be built, or does not fit the policy.
    """

    def __init__(self, assembly: Assembly, pool: WorkerPool | None = None, name: str = MAIN) -> None:
        self._side = EvaluationSide(assembly, name)
        self._side.check(pool)
        options = evaluators_of(assembly.experiment)[name]
        path = ("evaluation",) if name == MAIN else ("evaluation", name)
        self._training = assembly
        self._assembly = self._side.assembly
        self._seeds = assembly.seeds.seeds(options.n_episodes, *path, "episodes")
        self._deterministic = options.deterministic or assembly.takes_modes
        self._policy_seed = assembly.seeds.seed(*path, "policy")
        self.every_epochs = options.every_epochs
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
        states = self._side.states(self._training.transform_states())
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
        return self._pool.spawn(factory, min(self._pool.n_workers, len(self._seeds)), GroupOptions(light=True))

    def _player_factory(self) -> Callable[..., EvaluationPlayer]:
        make: Callable[[int], VectorEnv] = partial(_sequential, self._assembly.env_factory(training=False))
        if self._assembly.evaluates_in_mode and self._pool is None:
            make = self._assembly.batch_factory(training=False).raw
        return partial(EvaluationPlayer, make, self._assembly.transform_selections, self._assembly.policy_wrapper)


class Evaluators:
    """All evaluators of a run that play episodes, by name; "evaluation" is what the table `[evaluation]` itself says.

    Statistics of the others have their name and a slash before their tags: "hard/BaseEnvEvents/reward/mean".

    Args:
        assembly: of the run.
        pool: where episodes are played in parallel; None: in this process.

    Raises:
        MazeError: an environment cannot be built, or does not fit the policy.
    """

    def __init__(self, assembly: Assembly, pool: WorkerPool | None = None) -> None:
        options = evaluators_of(assembly.experiment)
        self._parts = {name: Evaluator(assembly, pool, name) for name, own in options.items() if own.n_episodes}
        self._known: dict[str, None] = {}

    def due(self, epoch: int, last: bool) -> tuple[str, ...]:
        """Who evaluates after an epoch; everybody after the last one."""
        return tuple(name for name, one in self._parts.items() if last or epoch % one.every_epochs == 0)

    def evaluate(self, due: Sequence[str], model: ActorCritic) -> Statistics:
        """The statistics of some evaluators, in one mapping."""
        found: dict[str, Any] = {}
        for name in due:
            prefix = "" if name == MAIN else f"{name}/"
            found |= {f"{prefix}{tag}": value for tag, value in self._parts[name](model).items()}
        return found

    def value(self, metric: Metric, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> float | None:
        """A metric's value this epoch; None in an epoch without it. Without its evaluator that of training is taken.

        An epoch lacks what did not happen in it: a name that `remember` was given is known all the same.

        Raises:
            RequestError: its evaluator took part, and there is no such statistic.
        """
        if metric.evaluator not in self._parts:
            return metric.of(train, None)
        return metric.of(train, evaluation, self._known) if evaluation or metric.of_training else None

    def remember(self, train: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> None:
        """Learn the names of an epoch's statistics."""
        self._known |= dict.fromkeys(known_names(train, evaluation or ()))

    def loop_state(self) -> dict[str, Any]:
        """What a checkpoint's `LoopState` keeps of them."""
        orders = {name: list(one.events.order) for name, one in self._parts.items()}
        main = orders.pop(MAIN, [])
        return {"evaluation_events": main, "evaluators_events": orders, "known_statistics": list(self._known)}

    def load_loop_state(self, state: LoopState) -> None:
        """Restore what `loop_state` returned."""
        for name, one in self._parts.items():
            one.events.order = list(state.evaluation_events if name == MAIN else state.evaluators_events.get(name, ()))
        self._known = dict.fromkeys(state.known_statistics)

    def close(self) -> None:
        """Close the evaluation environments."""
        for one in self._parts.values():
            one.close()


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
        self._selections = transforms
        self._transforms: list[Transform] = [build(selection) for selection in transforms]
        self._policy_wrapper = policy_wrapper
        self._model = model
        self._acting: ActingCopy[None] | None = None
        self._vector_env: VectorEnv | None = None

    def play(
        self, seeds: Sequence[int], policy_seed: int, deterministic: bool, states: Sequence[Mapping[str, Any]]
    ) -> list[EpisodeResult]:
        """One episode a seed, each in an environment of its own."""
        from maze_runtime.models.acting_copy import ActingCopy
        from maze_runtime.models.policy_wrapper import wrap_policy
        from maze_runtime.rollout.episodes import run_episodes

        if self._vector_env is None:
            self._vector_env = wrap_batch(self._make_vector_env(len(seeds)), self._transforms, training=False)
        load_statistics(self._selections, self._transforms, states)
        acting = self._acting = self._acting or ActingCopy(self._model, None)
        acting.refresh()
        module: Any = acting.model
        was_training = module.training
        module.eval()
        try:
            policy = wrap_policy(acting.model.make_policy(policy_seed), self._policy_wrapper)
            return run_episodes(self._vector_env, policy, seeds, deterministic=deterministic, with_events=True)
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


def _sequential(env_factory: EnvFactory, n_envs: int) -> VectorEnv:
    from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

    return SequentialVectorEnv([env_factory] * n_envs)
