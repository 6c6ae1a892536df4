"""The loop inside a deployed agent: a rollout whose simulation is outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import ArrayDict, Group, VectorEnv
from maze_runtime.env.outside import Outside, Reply
from maze_runtime.rollout.policy_seeds import seed_policy


class Relay:
    """What the environment holds on to while one loop follows the other."""

    outside: Outside

    def reset(self) -> Reply:
        return self.outside.reset()

    def step(self, maze_action: Any) -> Reply:
        return self.outside.step(maze_action)

    def is_over(self) -> bool:
        return self.outside.is_over()


class NotedCalls:
    """Implements `Policy`: a policy, and the key that it decided for last.

    Attributes:
        last_key: None before the first decision of an episode.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.last_key: PolicyKey | None = None

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """The policy's."""
        action = self._policy.act(policy_key, group, deterministic=deterministic)
        self.last_key = policy_key
        return action

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """The policy's; nothing is decided yet."""
        self._policy.begin_episodes(env_index)
        self.last_key = None

    def seed(self, seed: int) -> None:
        """The policy's."""
        self._policy.seed(seed)

    def state_dict(self) -> dict[str, Any]:
        """The policy's."""
        return self._policy.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The policy's."""
        self._policy.load_state_dict(state)


def play_for(batch: VectorEnv, policy: Policy, outside: Outside, seed: int | None, deterministic: bool) -> None:
    """Play episodes one after the other, as rollouts do; the batch restarts its only environment by itself."""
    only = np.zeros(1, np.int64)
    if seed is not None:
        seed_policy(policy, seed)
    tick = batch.reset([[] if seed is None else [seed]])
    policy.begin_episodes(only)
    while not outside.is_over():
        actions = {key: policy.act(key, group, deterministic=deterministic) for key, group in tick.groups.items()}
        tick = batch.step(actions)
        if tick.terminated[0] or tick.truncated[0]:
            policy.begin_episodes(only)
