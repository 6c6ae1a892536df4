"""Statistics that transforms need before training, estimated by playing, at random as a rule, in the worker pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from maze_kernel.catalog import build
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import Policy, PolicyContext
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, VectorEnv
from maze_kernel.contracts.workers import ActorContext, WorkerPool
from maze_kernel.errors import MazeError
from maze_runtime.env.blame import of_transform
from maze_runtime.rollout.episode_observer import played_envs
from maze_runtime.rollout.heuristic import WatchesEnvs
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_runtime.workers.inline import InlinePool

if TYPE_CHECKING:
    from maze_kernel.selection import Selection

MakeVectorEnv = Callable[[], VectorEnv]

_MOST_PARTS = 20
"""How often progress is told, at most."""


@runtime_checkable
class TakesStoredStatistics(Protocol):
    """A transform whose statistics may lie in a file."""

    def take_stored_statistics(self) -> str | None:
        """Take them, unless there are some; what is to be said about it, None where nothing was taken.

        Raises:
            RequestError: they cannot be read, or do not fit; it names the option.
        """
        ...


@runtime_checkable
class SamplesWith(Protocol):
    """A transform that says who acts while its statistics are estimated."""

    @property
    def sampling_policy(self) -> Selection | None:
        """A policy component; None: the random policy."""
        ...


def estimate_transforms(
    transforms: Sequence[Transform],
    make_vector_env: MakeVectorEnv,
    *,
    seed: int,
    pool: WorkerPool | None = None,
    report: Callable[[str], None] = lambda _text: None,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> None:
    """Give every transform that asks for it (`estimation_steps > 0`) its statistics, from a file where it names one.

    A transform is estimated on observations as it will see them: through those inside of it, which are
    estimated first. The result depends on the seed and on the number of workers, not on their timing.

    Args:
        transforms: innermost first, as they will be applied.
        make_vector_env: builds a batch without these transforms; must survive transport to a worker.
        seed: of the sampled episodes and the random actions.
        pool: where to sample; None: here.
        report: told what is being done, a line a transform.
        progress: told how much of the transform at hand is done, 0 to 1.
    """
    for index, transform in enumerate(transforms):
        if isinstance(transform, TakesStoredStatistics) and (line := transform.take_stored_statistics()):
            report(line)
        if not transform.estimation_steps:
            continue
        policy = _sampling_policy(transform)
        steps = "random steps" if policy is None else f"steps of {policy.use}"
        report(f"estimating {type(transform).__name__} from {transform.estimation_steps} {steps}")
        factory = partial(Sampler, make_vector_env, tuple(transforms[: index + 1]))
        partials = _sample(factory, transform.estimation_steps, [seed, index], pool, progress)
        with of_transform(transform, "finish_estimation"):
            transform.finish_estimation(partials)


def _sample(
    factory: Callable[[Any], Sampler],
    n_steps: int,
    entropy: Sequence[int],
    pool: WorkerPool | None,
    progress: Callable[[float], None],
) -> list[Any]:
    """Partial statistics, worker by worker in each part of the work, so that progress can be told in between."""
    n_workers = 1 if pool is None else max(1, pool.n_workers)
    n_parts = min(_MOST_PARTS, max(1, n_steps // 100))
    shares = [len(part) for part in np.array_split(np.arange(n_steps), n_workers)]
    seeds = [int(word) >> 1 for word in np.random.SeedSequence(list(entropy)).generate_state(n_workers)]
    with InlinePool() if pool is None else nullcontext(pool) as workers:
        group = workers.spawn(factory, n_workers)
        for i in range(n_workers):
            group.call(i, "begin", seeds[i]).result()
        partials: list[Any] = []
        for part in range(1, n_parts + 1):
            futures = [group.call(i, "collect_until", shares[i] * part // n_parts) for i in range(n_workers)]
            partials += [found for future in futures if (found := future.result()) is not None]
            progress(part / n_parts)
        group.close()
    return partials


class Sampler:
    """The actor that collects: a batch, the transforms inside of the one to estimate, and that one."""

    def __init__(
        self, make_vector_env: MakeVectorEnv, transforms: Sequence[Transform], _context: ActorContext | None
    ) -> None:
        vector_env = make_vector_env()
        for transform in transforms[:-1]:
            vector_env = TransformedVectorEnv(vector_env, transform, training=False)
        self._vector_env = vector_env
        self._inner, self._transform = tuple(transforms[:-1]), transforms[-1]
        self._transform.bind(vector_env.structured_spaces)

    def begin(self, seed: int) -> None:
        """Start new episodes and the random policy."""
        self._batches = random_observations(self._vector_env, seed, self._policy(seed))
        self._taken = 0

    def collect_until(self, n_steps: int) -> Any:
        """A partial statistic over the next decisions, until there are `n_steps` since `begin`; None if there are."""
        if self._taken >= n_steps:
            return None
        with of_transform(self._transform, "collect"):
            return self._transform.collect(self._until(n_steps))

    def _until(self, n_steps: int) -> Iterator[dict[PolicyKey, ArrayDict]]:
        while self._taken < n_steps:
            batch = next(self._batches)
            self._taken += sum(len(next(iter(rows.values()))) for rows in batch.values())
            yield batch

    def _policy(self, seed: int) -> Policy | None:
        selection = _sampling_policy(self._transform)
        if selection is None:
            return None
        context = PolicyContext(spaces=self._vector_env.structured_spaces, seed=seed, transforms=self._inner)
        try:
            policy: Policy = build(selection, context)
        except MazeError as error:
            error.location = error.location or selection.location
            raise
        if isinstance(policy, WatchesEnvs):
            policy.watch_envs(played_envs(self._vector_env))
        return policy

    def close(self) -> None:
        """Close the batch."""
        self._vector_env.close()


def _sampling_policy(transform: Transform) -> Selection | None:
    return transform.sampling_policy if isinstance(transform, SamplesWith) else None


def random_observations(
    vector_env: VectorEnv, seed: int, policy: Policy | None = None
) -> Iterator[dict[PolicyKey, ArrayDict]]:
    """Observations by policy key on which a policy decides, without end; void rows are left out.

    Args:
        vector_env: reset here.
        seed: of the episodes, and of the uniformly random policy.
        policy: in place of that one.
    """
    episodes = np.random.SeedSequence(seed).generate_state(vector_env.n_envs)
    tick = vector_env.reset([[int(word) >> 1] for word in episodes])
    policy = policy or RandomPolicy(PolicyContext(spaces=vector_env.structured_spaces, seed=seed))
    policy.begin_episodes(np.arange(vector_env.n_envs))
    while True:
        batch = {key: group.observation for key, group in tick.groups.items()}
        if tick.awaiting_reset is not None:
            for key, group in tick.groups.items():
                live = ~tick.awaiting_reset[group.env_index]
                batch[key] = {name: array[live] for name, array in group.observation.items()}
        yield batch
        tick = vector_env.step({key: policy.act(key, group) for key, group in tick.groups.items()})
        if (ended := (tick.terminated | tick.truncated).nonzero()[0]).size:
            policy.begin_episodes(ended)
