"""Rollouts collected by the workers of a subprocess batch themselves: no exchange at every step.

A step of a light environment costs less than waking a process up for it. Here the workers get the policy and one
set of weights a rollout, and answer once it is complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.contracts.workers import ActorGroup
from maze_processes import transport
from maze_processes.rollout_host import SliceRollout
from maze_runtime.models.capabilities import SamplesDistributions
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.collector import add_rollout, make_buffer
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.structured_buffer import StructuredBuffer
from maze_runtime.workers.lanes import Lanes, lane_specs

_PREPARE_SECONDS = 120.0
"""Importing torch in a worker may take longer than a step is allowed to."""


class BatchOfWorkers(Protocol):
    """What is asked of the batch: see `SubprocessVectorEnv`, which is one."""

    n_envs: int
    n_processes: int
    bounds: list[int]
    shares_memory: bool
    workers: ActorGroup

    @property
    def collects_alone(self) -> bool: ...

    def call_workers(
        self, method: str, arguments: Sequence[Sequence[Any]], timeout_seconds: float | None = None
    ) -> list[Any]: ...

    def call_until_answered(self, method: str) -> list[Any]: ...


def remote_collector(
    batch: BatchOfWorkers, vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int
) -> RemoteCollector | None:
    """A collector that lets the workers collect, where nothing needs to see whole steps; see `CollectsRollouts`.

    That is: environments in two processes or more that are not replaced when they die, transforms without running
    statistics, a policy that samples from the distributions of a model in NumPy.
    """
    transforms = list(getattr(vector_env, "transforms", ()))
    if (
        not batch.collects_alone
        or not isinstance(policy, SamplesDistributions)
        or not policy.is_mirrored
        or any(transform.keeps_running_statistics for transform in transforms)
    ):
        return None
    try:
        model = transport.encode_factory(policy.model)
    except Exception:
        return None  # a model that cannot travel
    return RemoteCollector(vector_env, batch, policy, model, transforms, parameters, n_steps)


class RemoteCollector:
    """Implements `RolloutCollector`.

    For the same weights and seeds the same rollouts come out whatever the timing. Actions are drawn from one random
    stream a worker, so they are not those of a `Collector`.
    """

    def __init__(
        self,
        vector_env: VectorEnv,
        batch: BatchOfWorkers,
        policy: SamplesDistributions,
        model: bytes,
        transforms: Sequence[Transform],
        parameters: FlatParameters,
        n_steps: int,
    ) -> None:
        self.policy_key = vector_env.structured_spaces.policy_keys[0]
        self.statistics = EpisodeReturns(batch.n_envs)
        self.env_steps = 0
        self._batch = batch
        self._policy = policy
        self._transforms = transforms
        self._parameters = parameters
        self._version = 0
        if batch.shares_memory:
            spaces, bounds = vector_env.structured_spaces, batch.bounds
            sizes = [last - first for first, last in itertools.pairwise(bounds)]
            batch.workers.share(lane_specs([make_buffer(spaces, n_steps, size).columns() for size in sizes], n_slots=1))
        self._lanes = Lanes(batch.n_processes, batch.workers.arrays)
        plan = [(model, n_steps)] * batch.n_processes
        batch.call_workers("prepare_rollouts", plan, timeout_seconds=_PREPARE_SECONDS)

    def reset(self, seeds: Sequence[Sequence[int]]) -> None:
        """Start new episodes everywhere, and the workers' random streams from the policy's."""
        bounds = self._batch.bounds
        policy_seeds = self._policy.draw_seeds(self._batch.n_processes)
        slices = [seeds[first:last] for first, last in itertools.pairwise(bounds)]
        transforms = transport.encode_factory(self._transforms)
        self._batch.call_workers(
            "begin_rollouts", [(transforms, own, seed) for own, seed in zip(slices, policy_seeds, strict=True)]
        )
        self.statistics.reset()

    def collect(self, buffer: RolloutBuffer | StructuredBuffer) -> None:
        """Fill the whole buffer with the current weights."""
        self._version += 1
        self._batch.workers.broadcast(self._parameters.data.numpy(), self._version)
        buffer.truncations.clear()
        for worker, rollout in enumerate(self._batch.call_until_answered("collect")):
            self._take(worker, rollout, buffer)
        add_rollout(self, buffer)

    def _take(self, worker: int, rollout: SliceRollout, buffer: RolloutBuffer | StructuredBuffer) -> None:
        """Copy a worker's slice to its environments' place in the whole rollout."""
        first, last = self._batch.bounds[worker], self._batch.bounds[worker + 1]
        columns = self._lanes.read(worker, 0, rollout.columns)
        for name, array in buffer.columns().items():
            (array[:, first:last] if name in buffer.time_major else array[first:last])[...] = columns[name]
        if isinstance(buffer, StructuredBuffer):
            # The tables of a slice are blocks of rows of the whole ones.
            buffer.row[:, first:last] += first * buffer.n_steps
        for step, index, observation in rollout.truncations:
            buffer.truncations.append((step, index + first, observation))
