"""In a worker: collects rollouts of a slice of a batch by itself, policy included, and puts them into its lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_kernel.contracts.events import EpisodeStatistics
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import VectorEnv
from maze_runtime.env.finite_check import FiniteCheck
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.collector import Collector, make_buffer
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_transform import TransformedVectorEnv
from maze_runtime.workers.lanes import Columns, Lane

_CALL_SECONDS = 0.02

Truncations = list[tuple[int, np.ndarray, Any]]
"""As in the buffer's `truncations`."""


class SliceRollout(NamedTuple):
    """A rollout of the slice: what its lane leaves to the answer, and truncations by environment of the slice."""

    columns: Columns | None
    truncations: Truncations


class RolloutHost:
    """Steps its environments with its own copy of the policy; see `RemoteCollector`.

    Args:
        model: acts on the CPU; its weights are replaced by `load_weights`.
        envs: of the slice.
        n_steps: of every rollout.
        lane: has one slot.
    """

    def __init__(self, model: ActorCritic, envs: SequentialVectorEnv, n_steps: int, lane: Lane) -> None:
        torch.set_num_threads(1)
        module: Any = model
        self._parameters = FlatParameters(module)
        self._policy = model.make_policy(0)
        self._envs = envs
        self._vector_env: VectorEnv = envs
        self._n_steps = n_steps
        self._lane = lane
        self._next_row = 0

    def load_weights(self, flat: np.ndarray) -> None:
        """Act with these parameters from now on."""
        self._parameters.data.copy_(torch.from_numpy(flat))

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """The event statistics of the slice and of its transforms."""
        source = capability(self._vector_env, ReportsBatchStatistics)  # type: ignore[type-abstract]
        return [] if source is None else source.drain_batch_statistics()

    def begin(self, transforms: Sequence[Transform], seeds: Sequence[Sequence[int]], policy_seed: int) -> None:
        """Start new episodes and a new random stream."""
        vector_env: VectorEnv = FiniteCheck(self._envs)
        for transform in transforms:
            vector_env = TransformedVectorEnv(vector_env, transform, training=True)
        self._vector_env = vector_env
        self._policy.seed(policy_seed)
        self._collector = Collector(vector_env, self._policy)
        self._buffer = make_buffer(vector_env.structured_spaces, self._n_steps, self._envs.n_envs)
        self._next_row = 0
        self._collector.reset(seeds)

    def collect(self) -> SliceRollout | None:
        """Collect for a few milliseconds; None as long as the rollout is not complete.

        A call is short, so that its deadline is that of a step.
        """
        self._next_row = self._collector.collect_from(self._buffer, self._next_row, _CALL_SECONDS)
        if self._next_row < self._buffer.n_steps:
            return None
        self._next_row = 0
        return SliceRollout(self._lane.put(0, self._buffer.columns()), list(self._buffer.truncations))
