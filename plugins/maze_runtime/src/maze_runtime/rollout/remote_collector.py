"""Rollouts collected by workers themselves: no exchange at every step.

A step of a light environment costs less than waking a process up for it. Here the workers get the policy and one
set of weights a rollout, and answer once it is complete. Who the workers are, and what happens where one dies, is the
matter of `RolloutWorkers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.capabilities import SamplesDistributions
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.models.flat_state import SentWeights
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.collector import add_rollout
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.rollout_host import SliceRollout
from maze_runtime.rollout.shared_statistics import Partials, RunStatistics, SharedStatistics
from maze_runtime.rollout.structured_buffer import StructuredBuffer
from maze_runtime.workers.lanes import Columns


class RolloutWorkers(Protocol):
    """Workers that collect rollouts of a slice of the environments each.

    Attributes:
        bounds: worker i has environments bounds[i] … bounds[i + 1] − 1.
        restarted: workers that were replaced while the last rollouts were collected, so that theirs begin new episodes.
    """

    bounds: list[int]
    restarted: list[int]

    def begin_rollouts(
        self, seeds: Sequence[Sequence[int]], policy_seeds: Sequence[int], told: RunStatistics | None
    ) -> None:
        """Start new episodes everywhere, with a seed of the action samples for each worker and the run's statistics."""
        ...

    def collect_rollouts(
        self, flat: np.ndarray, told: RunStatistics | None, *, at_random: bool
    ) -> Iterable[tuple[SliceRollout, Columns]]:
        """A rollout of each worker, in order, made with the weights `flat` (P,), and the arrays it left in its lane."""
        ...


class RemoteCollector:
    """Implements `RolloutCollector`.

    For the same weights and seeds the same rollouts come out whatever the timing. Actions are drawn from one random
    stream a worker, so they are not those of a `Collector`.

    Args:
        workers: collect.
        policy_key: see `RolloutCollector`.
        policy: the workers' random streams follow from its own.
        parameters: of the policy's model; broadcast before each rollout, with its buffers.
        statistics: of the run, brought up to date by each rollout.
    """

    def __init__(
        self,
        workers: RolloutWorkers,
        policy_key: PolicyKey,
        policy: SamplesDistributions,
        parameters: FlatParameters,
        statistics: SharedStatistics,
    ) -> None:
        self.policy_key = policy_key
        self.statistics = EpisodeReturns(workers.bounds[-1])
        self.env_steps = 0
        self.restarted = np.zeros(0, np.int64)
        self._raw_reward: dict[int, tuple[float, int]] = {}
        self._workers = workers
        self._policy = policy
        self._weights = SentWeights(policy.model, parameters)
        self._shared = statistics

    def reset(self, seeds: Sequence[Sequence[int]]) -> None:
        """Start new episodes everywhere, and the workers' random streams from the policy's."""
        n_workers = len(self._workers.bounds) - 1
        self._workers.begin_rollouts(seeds, self._policy.draw_seeds(n_workers), self._shared.now())
        self.statistics.reset()

    def collect(self, buffer: RolloutBuffer | StructuredBuffer, *, at_random: bool = False) -> None:
        """Fill the whole buffer with the current weights, or with uniformly random actions."""
        weights = self._weights.pack()
        buffer.truncations.clear()
        if isinstance(buffer, StructuredBuffer):
            buffer.actor_rewards.clear()
            buffer.departures.clear()
        rollouts = self._workers.collect_rollouts(weights, self._shared.now(), at_random=at_random)
        seen: list[Partials] = []
        for worker, (rollout, columns) in enumerate(rollouts):
            self._take(worker, rollout, columns, buffer)
            seen.append(rollout.partials)
        self._shared.merge(seen)
        bounds = self._workers.bounds
        own = [np.arange(bounds[worker], bounds[worker + 1]) for worker in self._workers.restarted]
        self.restarted = np.concatenate([np.zeros(0, np.int64), *own])
        self.statistics.forget(self.restarted)
        add_rollout(self, buffer)

    def raw_reward_so_far(self) -> tuple[float, int]:
        """See `TellsRawReward`: what came with the newest rollouts."""
        told = self._raw_reward.values()
        return sum(paid for paid, _ in told), sum(n for _, n in told)

    def forget_raw_reward(self) -> None:
        """The workers' statistics are drained."""
        self._raw_reward.clear()

    def _take(
        self, worker: int, rollout: SliceRollout, columns: Columns, buffer: RolloutBuffer | StructuredBuffer
    ) -> None:
        """Copy a worker's slice to its environments' place in the whole rollout."""
        self._raw_reward[worker] = rollout.raw_reward_so_far
        first, last = self._workers.bounds[worker], self._workers.bounds[worker + 1]
        for name, array in buffer.columns().items():
            (array[:, first:last] if name in buffer.time_major else array[first:last])[...] = columns[name]
        if isinstance(buffer, StructuredBuffer):
            # The tables of a slice are blocks of rows of the whole ones.
            buffer.row[:, first:last] += first * buffer.n_steps
            buffer.actor_rewards += [(step, index + first, rewards) for step, index, rewards in rollout.actor_rewards]
            buffer.departures += [own._replace(env_index=own.env_index + first) for own in rollout.departures]
        for step, index, observation in rollout.truncations:
            buffer.truncations.append((step, index + first, observation))
