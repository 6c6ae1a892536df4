"""Steps a batch of environments with a policy and writes what happens into a rollout buffer.

Flat environments take a path of their own, without an index anywhere; structured ones write the decisions of each
policy key.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import Tick, VectorEnv
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.structured_buffer import StructuredBuffer
from maze_runtime.rollout.vector_transform import TransformedVectorEnv


def make_buffer(spaces: StructuredSpaces, n_steps: int, n_envs: int) -> RolloutBuffer | StructuredBuffer:
    """Storage of the rollouts that a collector makes of environments with these spaces."""
    if spaces.is_flat:
        return RolloutBuffer(spaces, spaces.policy_keys[0], n_steps, n_envs)
    return StructuredBuffer(spaces, n_steps, n_envs)


class RolloutCollector(Protocol):
    """Collects rollouts of N environments; episodes go on from one rollout to the next.

    Attributes:
        policy_key: the only one of flat environments, the first one of structured ones.
        statistics: of the episodes that finished; lengths are flat steps.
        env_steps: flat steps so far.
        restarted: (m,) environments that gave up the episodes of the rollout before and began new ones with the one
            collected last, because whoever steps them was replaced.
    """

    policy_key: PolicyKey
    statistics: EpisodeReturns
    env_steps: int
    restarted: np.ndarray

    def reset(self, seeds: Sequence[Sequence[int]]) -> None:
        """Start new episodes everywhere; unfinished ones are forgotten."""
        ...

    def collect(self, buffer: RolloutBuffer | StructuredBuffer) -> None:
        """Fill the whole buffer."""
        ...


@runtime_checkable
class CollectsRollouts(Protocol):
    """A batch that knows a faster way to collect rollouts than step by step, e.g. where its environments are."""

    def make_collector(
        self, vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int
    ) -> RolloutCollector | None:
        """A collector of its own; None where this policy or these transforms have to see whole steps.

        Args:
            vector_env: this batch, checked and inside its transforms (attribute `transforms`, innermost first).
            policy, parameters, n_steps: see `collector_for`.
        """
        ...


@runtime_checkable
class OnlyCollects(CollectsRollouts, Protocol):
    """A batch that takes no single steps: its collector is the only way to play in it."""

    only_collects: bool


def innermost(vector_env: VectorEnv) -> VectorEnv:
    """The batch inside its check and its transforms."""
    while isinstance(vector_env, (TransformedVectorEnv, BatchGuard)):
        vector_env = vector_env.vector_env
    return vector_env


def collector_for(vector_env: VectorEnv, policy: Policy, parameters: FlatParameters, n_steps: int) -> RolloutCollector:
    """The fastest collector for a batch and a policy: the batch's own if it has one.

    Args:
        vector_env: wrapped and checked.
        policy: acts.
        parameters: that it acts with, on the CPU.
        n_steps: of every rollout.
    """
    batch = innermost(vector_env)
    own = batch.make_collector(vector_env, policy, parameters, n_steps) if isinstance(batch, CollectsRollouts) else None
    return Collector(vector_env, policy) if own is None else own


class Collector:
    """Implements `RolloutCollector` step by step.

    Args:
        vector_env: flat or structured environments.
        policy: see the attribute.

    Attributes:
        policy: decides, and is told when episodes begin; may be exchanged between rollouts.
    """

    def __init__(self, vector_env: VectorEnv, policy: Policy) -> None:
        spaces = vector_env.structured_spaces
        self.policy_key = spaces.policy_keys[0]
        self.statistics = EpisodeReturns(vector_env.n_envs)
        self.env_steps = 0
        self.restarted = np.zeros(0, np.int64)
        self._vector_env = vector_env
        self.policy = policy
        self._tick: Tick | None = None
        self._open_sub_steps = np.zeros(vector_env.n_envs, np.int64)

    def reset(self, seeds: Sequence[Sequence[int]]) -> None:
        """Start new episodes everywhere; unfinished ones are forgotten."""
        self._tick = self._vector_env.reset(seeds)
        self.statistics.reset()
        self._open_sub_steps.fill(0)
        self.policy.begin_episodes(np.arange(self._vector_env.n_envs))

    def collect(self, buffer: RolloutBuffer | StructuredBuffer) -> None:
        """Fill the whole buffer."""
        self.collect_from(buffer, 0, math.inf)

    def collect_from(self, buffer: RolloutBuffer | StructuredBuffer, first: int, seconds: float) -> int:
        """Fill the buffer from row `first` on, as far as time allows but one row at least; returns the next row."""
        if first == 0:
            buffer.begin()
        end = time.perf_counter() + seconds
        if isinstance(buffer, StructuredBuffer):
            next_row = self._fill_structured(buffer, first, end)
        else:
            next_row = self._fill(buffer, first, end)
        if next_row == buffer.n_steps:
            self._complete(buffer)
        return next_row

    def _fill(self, buffer: RolloutBuffer, first: int, end: float) -> int:
        assert self._tick is not None, "reset the collector first"
        now = time.perf_counter
        key, tick, act, step = self.policy_key, self._tick, self.policy.act, self._vector_env.step
        observations = list(buffer.observation.items())
        actions = list(buffer.action.items())
        policy: Any = self.policy
        value, logits = buffer.value, list(buffer.logits.items())
        for t in range(first, buffer.n_steps):
            group = tick.groups[key]
            for name, array in observations:
                array[t] = group.observation[name]
            action = act(key, group)
            for name, array in actions:
                array[t] = action[name]
            if value is not None:
                value[t] = policy.last_value
                for head, array in logits:
                    array[t] = policy.last_logits[head]
            awaiting_reset = tick.awaiting_reset
            tick = step({key: action})
            buffer.reward[t] = tick.reward
            buffer.terminated[t] = tick.terminated
            buffer.truncated[t] = tick.truncated
            if awaiting_reset is not None:
                buffer.void[t] = awaiting_reset
                self.policy.begin_episodes(np.flatnonzero(awaiting_reset))
            if tick.final_observation:
                self._end_episodes(buffer, t, tick)
            if now() >= end:
                break
        self._tick = tick
        return t + 1

    def _fill_structured(self, buffer: StructuredBuffer, first: int, end: float) -> int:
        assert self._tick is not None, "reset the collector first"
        tick, act, step = self._tick, self.policy.act, self._vector_env.step
        keys = {key: (i, tuple(buffer.tables[key].action.items())) for i, key in enumerate(buffer.policy_keys)}
        for t in range(first, buffer.n_steps):
            actions = {}
            for key, group in tick.groups.items():
                key_index, heads = keys[key]
                rows = buffer.add_observation(t, group, key_index)
                action = actions[key] = act(key, group)
                for name, array in heads:
                    array[rows] = action[name]
            if tick.awaiting_reset is not None:
                buffer.void[t] = tick.awaiting_reset
                self.policy.begin_episodes(np.flatnonzero(tick.awaiting_reset))
            tick = step(actions)
            buffer.add_results(t, tick)
            for key, final in tick.final_observation.items():
                self.policy.begin_episodes(final.env_index)
                cut = tick.truncated[final.env_index] & ~tick.terminated[final.env_index]
                if cut.any():
                    buffer.add_truncation(t, final, key, cut)
            if time.perf_counter() >= end:
                break
        self._tick = tick
        return t + 1

    def _complete(self, buffer: RolloutBuffer | StructuredBuffer) -> None:
        assert self._tick is not None
        add_rollout(self, buffer)
        if isinstance(buffer, StructuredBuffer):
            buffer.end(self._tick, self._open_sub_steps)
            return
        for name, array in buffer.last_observation.items():
            array[...] = self._tick.groups[self.policy_key].observation[name]

    def _end_episodes(self, buffer: RolloutBuffer, t: int, tick: Tick) -> None:
        final = tick.final_observation[self.policy_key]
        self.policy.begin_episodes(final.env_index)
        cut = tick.truncated[final.env_index] & ~tick.terminated[final.env_index]
        if cut.any():
            rows = {name: array[cut] for name, array in final.observation.items()}
            buffer.add_truncation(t, final.env_index[cut], rows)


class _Counts(Protocol):
    statistics: EpisodeReturns
    env_steps: int


def add_rollout(counts: _Counts, buffer: RolloutBuffer | StructuredBuffer) -> None:
    """Count the flat steps and episodes of a rollout."""
    idle = idle_decisions(buffer)
    counts.statistics.add(buffer.reward, buffer.terminated | buffer.truncated, idle)
    counts.env_steps += idle.size - int(np.count_nonzero(idle))


def idle_decisions(buffer: RolloutBuffer | StructuredBuffer) -> np.ndarray:
    """(T, N) bool: decisions that end no flat step, so are no environment step."""
    return buffer.void | ~buffer.flat_step_end if isinstance(buffer, StructuredBuffer) else buffer.void
