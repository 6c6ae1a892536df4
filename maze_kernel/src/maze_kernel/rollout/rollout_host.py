"""In a worker: collects rollouts of a slice of a batch by itself, policy included, into shared arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from maze_kernel.env.capabilities import ReportsBatchStatistics, capability
from maze_kernel.env.contract import StructuredSpaces
from maze_kernel.env.finite_check import FiniteCheck
from maze_kernel.env.tick import VectorEnv
from maze_kernel.env.transform import Transform
from maze_kernel.events.records import EpisodeStatistics
from maze_kernel.models.contract import ActorCritic
from maze_kernel.models.flat_parameters import FlatParameters
from maze_kernel.rollout.collector import Collector, make_buffer
from maze_kernel.rollout.sequential_vector import SequentialVectorEnv
from maze_kernel.rollout.structured_buffer import StructuredBuffer
from maze_kernel.rollout.vector_transform import TransformedVectorEnv
from maze_kernel.workers.contract import ArraySpec

PREFIX = "rollout/"
"""What the names of these shared arrays begin with."""

_CALL_SECONDS = 0.02

Truncations = list[tuple[int, np.ndarray, Any]]
"""As in the buffer's `truncations`."""


def rollout_specs(spaces: StructuredSpaces, n_steps: int, n_envs: int) -> dict[str, ArraySpec]:
    """The shared arrays of one rollout; the names are those of the buffer's `columns`."""
    columns = make_buffer(spaces, n_steps, n_envs).columns()
    return {f"{PREFIX}{name}": ArraySpec(shape=array.shape, dtype=array.dtype.str) for name, array in columns.items()}


class RolloutHost:
    """Steps its environments with its own copy of the policy; see `RemoteCollector`.

    Args:
        model: acts on the CPU; its weights are replaced by `load_weights`.
        envs: of the slice.
        rows: of the slice in the batch.
        arrays: those of `rollout_specs`.
    """

    def __init__(
        self, model: ActorCritic, envs: SequentialVectorEnv, rows: slice, arrays: Mapping[str, np.ndarray]
    ) -> None:
        torch.set_num_threads(1)
        module: Any = model
        self._parameters = FlatParameters(module)
        self._policy = model.make_policy(0)
        self._envs = envs
        self._vector_env: VectorEnv = envs
        self._rows = rows
        self._shared = {name.removeprefix(PREFIX): array for name, array in arrays.items()}
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
        n_steps = len(self._shared["reward"])
        self._buffer = make_buffer(vector_env.structured_spaces, n_steps, self._envs.n_envs)
        self._next_row = 0
        self._collector.reset(seeds)

    def collect(self) -> Truncations | None:
        """Collect for a few milliseconds; None as long as the rollout is not complete.

        A call is short, so that its deadline is that of a step.
        """
        self._next_row = self._collector.collect_from(self._buffer, self._next_row, _CALL_SECONDS)
        if self._next_row < self._buffer.n_steps:
            return None
        self._next_row = 0
        for name, array in self._buffer.columns().items():
            shared = self._shared[name]
            (shared[:, self._rows] if name in self._buffer.time_major else shared[self._rows])[...] = array
        first = self._rows.start
        if isinstance(self._buffer, StructuredBuffer):
            self._shared["row"][:, self._rows] += first * self._buffer.n_steps
        return [(step, index + first, observation) for step, index, observation in self._buffer.truncations]
