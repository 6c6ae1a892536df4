"""The vector mode "workers": the environments live on the experiment's worker pool, which collects whole rollouts.

Nothing is exchanged at single steps, so a pool may be anywhere; who wants to step is refused by name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import ArrayDict, Tick, VectorContext, VectorEnv
from maze_kernel.contracts.workers import WorkerPool
from maze_kernel.errors import RequestError
from maze_runtime.models.capabilities import SamplesDistributions
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.batch_notes import notes_of_idle
from maze_runtime.rollout.collecting_actor import CollectingPlan
from maze_runtime.rollout.pooled_rollouts import PooledRollouts
from maze_runtime.rollout.remote_collector import RemoteCollector
from maze_runtime.rollout.shared_statistics import SharedStatistics
from maze_runtime.rollout.space_reading import read_spaces
from maze_runtime.rollout.vector_options import MODE, PooledVectorOptions, without_workers
from maze_runtime.workers.shared_files import EnvFactoryWithoutFiles

OWNER = "maze-runtime"

_OTHERWISE = 'or choose another mode: "subprocess" steps in processes of this machine'
_CALL_SECONDS = 1.0
"""A worker answers at least so often, so that the deadline of its calls is that of a step."""
_ANSWERS_PER_SECOND = 100
"""Of all workers together: on a cluster an answer takes the caller about a millisecond."""


def pooled_batch(context: VectorContext, options: PooledVectorOptions) -> PooledBatch:
    """N environments divided among the workers of the experiment's pool.

    Raises:
        RequestError: the experiment has no `[workers]` table.
    """
    if not context.has_workers:
        raise without_workers()
    pool = context.make_workers()
    try:
        return PooledBatch(pool, context, options)
    except BaseException:
        pool.close()
        raise


class PooledBatch:
    """Implements `VectorEnv` for those who let it collect (`OnlyCollects`); it refuses to take single steps.

    Attributes:
        bounds: worker i has environments bounds[i] … bounds[i + 1] − 1.
        notes: see `HasNotes`.

    Args:
        pool: closed with this object.
        context: of the batch.
        options: of the mode.
    """

    only_collects = True
    seeds_every_episode = True

    def __init__(self, pool: WorkerPool, context: VectorContext, options: PooledVectorOptions) -> None:
        self.n_envs = context.n_envs
        self.notes = notes_of_idle(pool.n_workers, self.n_envs, "[workers] count")
        n_workers = min(pool.n_workers, self.n_envs)
        self.bounds = [self.n_envs * worker // n_workers for worker in range(n_workers + 1)]
        self._pool = pool
        self._make_env = context.env_factory if pool.shares_files else EnvFactoryWithoutFiles(context.env_factory)
        self._first_index = context.first_index
        self._options = options
        self._rollouts: PooledRollouts | None = None
        self._collector: RemoteCollector | None = None
        self.structured_spaces = context.spaces or read_spaces(pool, context.env_factory)

    def make_collector(
        self, vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int
    ) -> RemoteCollector:
        """The collector of this batch; see `CollectsRollouts`.

        Raises:
            RequestError: a transform's running statistics cannot be shared, or the policy has a rule of its own.
        """
        transforms = list(getattr(vector_env, "transforms", ()))
        statistics = SharedStatistics(transforms, f"{OWNER}: {MODE}", _OTHERWISE)
        if not isinstance(policy, SamplesDistributions):
            _refuse(
                f"{type(policy).__name__} acts by a rule of its own, which workers do not know",
                "use a model whose policy samples from its distributions, without a policy_wrapper",
            )
        timeout = self._pool.timeout_seconds or self._options.step_timeout_seconds
        model: Any = copy.deepcopy(policy.model)
        plan = CollectingPlan(
            make_env=self._make_env,
            bounds=self.bounds,
            first_index=self._first_index,
            transforms=transforms,
            model=model.to(torch.device("cpu")),
            parameter_names=_names(policy.model, parameters),
            n_steps=n_steps,
            call_seconds=min(max(_CALL_SECONDS, (len(self.bounds) - 1) / _ANSWERS_PER_SECOND), timeout / 4),
        )
        spaces = vector_env.structured_spaces
        self._rollouts = PooledRollouts(self._pool, plan, spaces, timeout)
        self._collector = RemoteCollector(self._rollouts, spaces.policy_keys[0], policy, parameters, statistics)
        return self._collector

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Refused, as `step` is."""
        _refuse_steps()

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Refused.

        Raises:
            RequestError: always.
        """
        _refuse_steps()

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of each environment's episodes that ended since the last call."""
        if self._collector is not None:
            self._collector.forget_raw_reward()
        return [] if self._rollouts is None else self._rollouts.drain_batch_statistics()

    def raw_reward_so_far(self) -> tuple[float, int]:
        """See `TellsRawReward`."""
        return (0.0, 0) if self._collector is None else self._collector.raw_reward_so_far()

    def render(self) -> Any:
        """None: nobody looks at workers."""
        return None

    def close(self) -> None:
        """Close every environment and stop the workers.

        Raises:
            EnvError: an environment's `close` raised, or its worker had to be killed.
        """
        try:
            if self._rollouts is not None:
                self._rollouts.close()
        finally:
            self._pool.close()


def _names(model: Any, parameters: FlatParameters) -> list[str]:
    """What the model calls these parameters, in their order."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(parameter)] for parameter in parameters.parameters]


def _refuse_steps() -> NoReturn:
    _refuse(
        "single steps of environments on a worker pool are not taken: a call costs more than a step",
        "use a trainer that collects rollouts, such as ppo, a2c or sac",
    )


def _refuse(what: str, help: str) -> NoReturn:
    raise RequestError(
        what,
        received=MODE,
        owner=OWNER,
        help=f"{help}, {_OTHERWISE}",
    )
