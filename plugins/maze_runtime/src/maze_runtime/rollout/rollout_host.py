"""In a worker: collects rollouts of a slice of a batch by itself, policy included, and puts them into its lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import ActorCritic, Policy, PolicyContext
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import VectorEnv
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.events.raw_reward import raw_reward_of
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.flat_state import SentWeights
from maze_runtime.rollout.collector import Collector, make_buffer
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.shared_statistics import Partials, RunStatistics, WorkersStatistics, own_copies
from maze_runtime.rollout.structured_buffer import Departure, StructuredBuffer
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_runtime.workers.lanes import Columns, Lane

Truncations = list[tuple[int, np.ndarray, Any]]
"""As in the buffer's `truncations`."""

ActorRewards = list[tuple[int, int, np.ndarray]]
"""As in `StructuredBuffer.actor_rewards`."""


class SliceRollout(NamedTuple):
    """A rollout of the slice: what its lane leaves, lists by environment, what was paid, what its statistics saw."""

    columns: Columns | None
    truncations: Truncations
    actor_rewards: ActorRewards
    departures: list[Departure]
    raw_reward_so_far: tuple[float, int]
    partials: Partials


class RolloutHost:
    """Steps its environments with its own copy of the policy; see `RemoteCollector`.

    Args:
        model: acts on the CPU; its weights are replaced by `load_weights`.
        parameters: of the model, those that `load_weights` brings.
        envs: of the slice.
        n_steps: of every rollout.
        lane: has one slot.
        call_seconds: a call of `collect` begins no further step after so long.
    """

    def __init__(
        self,
        model: ActorCritic,
        parameters: FlatParameters,
        envs: SequentialVectorEnv,
        n_steps: int,
        lane: Lane,
        call_seconds: float,
    ) -> None:
        self._weights = SentWeights(model, parameters)
        self._network = model.make_policy(0)
        self._envs = envs
        self._vector_env: VectorEnv = envs
        self._n_steps = n_steps
        self._lane = lane
        self._call_seconds = call_seconds
        self._next_row = 0

    def load_weights(self, flat: np.ndarray) -> None:
        """Act with these weights from now on."""
        self._weights.unpack(flat)

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of the slice and of its transforms."""
        source = capability(self._vector_env, ReportsBatchStatistics)  # type: ignore[type-abstract]
        return [] if source is None else source.drain_batch_statistics()

    def begin(
        self,
        transforms: Sequence[Transform],
        seeds: Sequence[Sequence[int]],
        policy_seed: int,
        told: RunStatistics | None,
    ) -> None:
        """Start new episodes and a new random stream.

        Args:
            transforms: innermost first; those with running statistics are copied.
            seeds: of each environment's episodes.
            policy_seed: of the action samples.
            told: the run's statistics.
        """
        vector_env: VectorEnv = BatchGuard(self._envs)
        transforms = own_copies(transforms)
        for transform in transforms:
            vector_env = TransformedVectorEnv(vector_env, transform, training=True)
        self._vector_env = vector_env
        self._statistics = WorkersStatistics(transforms)
        self._statistics.begin(told)
        self._network.seed(policy_seed)
        self._policy_seed = policy_seed
        self._random: Policy | None = None
        self._collector = Collector(vector_env, self._network)
        self._buffer = make_buffer(vector_env.structured_spaces, self._n_steps, self._envs.n_envs)
        self._next_row = 0
        self._collector.reset(seeds)

    def collect(self, at_random: bool = False, told: RunStatistics | None = None) -> SliceRollout | None:
        """Collect for a short while; None as long as the rollout is not complete.

        A call is short, so that its deadline is that of a step.

        Args:
            at_random: take uniformly random actions, not the network's.
            told: the run's statistics, at the beginning of a rollout.
        """
        self._statistics.follow(told)
        self._collector.policy = self._random_policy() if at_random else self._network
        self._next_row = self._collector.collect_from(self._buffer, self._next_row, self._call_seconds)
        if self._next_row < self._buffer.n_steps:
            return None
        self._next_row = 0
        buffer = self._buffer
        columns, truncations = self._lane.put(0, buffer.columns()), list(buffer.truncations)
        paid, partials = raw_reward_of(self._vector_env), self._statistics.take()
        if not isinstance(buffer, StructuredBuffer):
            return SliceRollout(columns, truncations, [], [], paid, partials)
        rewards, departures = list(buffer.actor_rewards), list(buffer.departures)
        return SliceRollout(columns, truncations, rewards, departures, paid, partials)

    def _random_policy(self) -> Policy:
        """Not made before it is wanted: it cannot sample every space."""
        if self._random is None:
            spaces = self._vector_env.structured_spaces
            self._random = RandomPolicy(PolicyContext(spaces=spaces, seed=self._policy_seed))
        return self._random
