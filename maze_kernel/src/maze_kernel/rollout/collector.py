"""Steps a batch of flat environments with a policy and writes what happens into a rollout buffer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from maze_kernel.env.tick import Tick, VectorEnv
from maze_kernel.errors import SpaceError
from maze_kernel.models.contract import Policy
from maze_kernel.rollout.buffer import RolloutBuffer
from maze_kernel.rollout.episode_statistics import EpisodeStatistics


class Collector:
    """Collects rollouts of N flat environments; episodes go on from one rollout to the next.

    Args:
        vector_env: environments with one policy key and one agent.
        policy: decides; told when episodes begin.

    Raises:
        SpaceError: the environments are structured.
    """

    def __init__(self, vector_env: VectorEnv, policy: Policy) -> None:
        spaces = vector_env.structured_spaces
        if not spaces.is_flat:
            raise SpaceError(
                "this collector steps flat environments only",
                received=f"policy keys {', '.join(spaces.policy_keys)} with agents {dict(spaces.agent_counts)}",
                expected="one policy key and one agent",
                owner="maze-kernel rollout",
            )
        self.policy_key = spaces.policy_keys[0]
        self.statistics = EpisodeStatistics(vector_env.n_envs)
        self.env_steps = 0
        self._vector_env = vector_env
        self._policy = policy
        self._tick: Tick | None = None

    def reset(self, seeds: Sequence[Sequence[int]]) -> None:
        """Start new episodes everywhere; unfinished ones are forgotten."""
        self._tick = self._vector_env.reset(seeds)
        self.statistics.reset()
        self._policy.begin_episodes(np.arange(self._vector_env.n_envs))

    def collect(self, buffer: RolloutBuffer) -> None:
        """Fill the whole buffer."""
        self.collect_from(buffer, 0, math.inf)

    def collect_from(self, buffer: RolloutBuffer, first: int, seconds: float) -> int:
        """Fill the buffer from row `first` on, as far as time allows but one row at least; returns the next row."""
        if first == 0:
            buffer.truncations.clear()
            buffer.void.fill(False)
        next_row = self._fill(buffer, first, time.perf_counter() + seconds)
        if next_row == buffer.n_steps:
            self._complete(buffer)
        return next_row

    def _fill(self, buffer: RolloutBuffer, first: int, end: float) -> int:
        assert self._tick is not None, "reset the collector first"
        now = time.perf_counter
        key, tick, act, step = self.policy_key, self._tick, self._policy.act, self._vector_env.step
        observations = list(buffer.observation.items())
        actions = list(buffer.action.items())
        for t in range(first, buffer.n_steps):
            group = tick.groups[key]
            for name, array in observations:
                array[t] = group.observation[name]
            action = act(key, group)
            for name, array in actions:
                array[t] = action[name]
            awaiting_reset = tick.awaiting_reset
            tick = step({key: action})
            buffer.reward[t] = tick.reward
            buffer.terminated[t] = tick.terminated
            buffer.truncated[t] = tick.truncated
            if awaiting_reset is not None:
                buffer.void[t] = awaiting_reset
            if tick.final_observation:
                self._end_episodes(buffer, t, tick)
            if now() >= end:
                break
        self._tick = tick
        return t + 1

    def _complete(self, buffer: RolloutBuffer) -> None:
        assert self._tick is not None
        for name, array in buffer.last_observation.items():
            array[...] = self._tick.groups[self.policy_key].observation[name]
        self.statistics.add(buffer.reward, buffer.terminated | buffer.truncated, buffer.void)
        self.env_steps += buffer.void.size - int(np.count_nonzero(buffer.void))

    def _end_episodes(self, buffer: RolloutBuffer, t: int, tick: Tick) -> None:
        final = tick.final_observation[self.policy_key]
        self._policy.begin_episodes(final.env_index)
        cut = tick.truncated[final.env_index] & ~tick.terminated[final.env_index]
        if cut.any():
            rows = {name: array[cut] for name, array in final.observation.items()}
            buffer.add_truncation(t, final.env_index[cut], rows)
