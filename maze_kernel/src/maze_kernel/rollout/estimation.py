"""Statistics that transforms need before training, estimated with a random policy, in the worker pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from maze_kernel.env.contract import PolicyKey
from maze_kernel.env.tick import ArrayDict, VectorEnv
from maze_kernel.env.transform import Transform
from maze_kernel.models.contract import PolicyContext
from maze_kernel.rollout.random_policy import RandomPolicy
from maze_kernel.rollout.vector_transform import TransformedVectorEnv
from maze_kernel.workers.contract import ActorContext, WorkerPool

MakeVectorEnv = Callable[[], VectorEnv]


def estimate_transforms(
    transforms: Sequence[Transform],
    make_vector_env: MakeVectorEnv,
    *,
    seed: int,
    pool: WorkerPool | None = None,
    report: Callable[[str], None] = lambda _text: None,
) -> None:
    """Give every transform that asks for it (`estimation_steps > 0`) its statistics.

    A transform is estimated on observations as it will see them: through those inside of it, which are
    estimated first. The result depends on the seed and on the number of workers, not on their timing.

    Args:
        transforms: innermost first, as they will be applied.
        make_vector_env: builds a batch without these transforms; must survive transport to a worker.
        seed: of the sampled episodes and the random actions.
        pool: where to sample; None: here.
        report: told what is being done, a line a transform.
    """
    n_workers = 1 if pool is None else max(1, pool.n_workers)
    for index, transform in enumerate(transforms):
        if not transform.estimation_steps:
            continue
        report(f"estimating {type(transform).__name__} from {transform.estimation_steps} random steps")
        factory = partial(Sampler, make_vector_env, tuple(transforms[: index + 1]))
        steps = [len(part) for part in np.array_split(np.arange(transform.estimation_steps), n_workers)]
        seeds = [int(word) >> 1 for word in np.random.SeedSequence([seed, index]).generate_state(n_workers)]
        if pool is None:
            sampler = factory(None)
            partials = [sampler.collect(steps[0], seeds[0])]
            sampler.close()
        else:
            group = pool.spawn(factory, n_workers)
            futures = [group.call(i, "collect", steps[i], seeds[i]) for i in range(n_workers) if steps[i]]
            partials = [future.result() for future in futures]
            group.close()
        transform.finish_estimation(partials)


class Sampler:
    """The actor that collects: a batch, the transforms inside of the one to estimate, and that one."""

    def __init__(
        self, make_vector_env: MakeVectorEnv, transforms: Sequence[Transform], _context: ActorContext | None
    ) -> None:
        vector_env = make_vector_env()
        for transform in transforms[:-1]:
            vector_env = TransformedVectorEnv(vector_env, transform, training=False)
        self._vector_env = vector_env
        self._transform = transforms[-1]
        self._transform.bind(vector_env.structured_spaces)

    def collect(self, n_steps: int, seed: int) -> Any:
        """A partial statistic over at least `n_steps` decisions."""
        return self._transform.collect(random_observations(self._vector_env, n_steps, seed))

    def close(self) -> None:
        """Close the batch."""
        self._vector_env.close()


def random_observations(vector_env: VectorEnv, n_steps: int, seed: int) -> Iterator[dict[PolicyKey, ArrayDict]]:
    """Observations by policy key on which a uniformly random policy decides.

    Ends after the tick with the `n_steps`-th decision of all environments together; void rows are left out.
    """
    episodes = np.random.SeedSequence(seed).generate_state(vector_env.n_envs)
    tick = vector_env.reset([[int(word) >> 1] for word in episodes])
    policy = RandomPolicy(PolicyContext(spaces=vector_env.structured_spaces, seed=seed))
    taken = 0
    while True:
        batch = {key: group.observation for key, group in tick.groups.items()}
        if tick.awaiting_reset is not None:
            for key, group in tick.groups.items():
                live = ~tick.awaiting_reset[group.env_index]
                batch[key] = {name: array[live] for name, array in group.observation.items()}
        yield batch
        taken += vector_env.n_envs - (0 if tick.awaiting_reset is None else int(tick.awaiting_reset.sum()))
        if taken >= n_steps:
            return
        tick = vector_env.step({key: policy.act(key, group) for key, group in tick.groups.items()})
