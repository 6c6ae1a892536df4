"""The loop inside a deployed agent: a rollout whose simulation is outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import VectorEnv
from maze_runtime.env.outside import Outside, Reply


class Relay:
    """What the environment holds on to while one loop follows the other."""

    outside: Outside

    def reset(self) -> Reply:
        return self.outside.reset()

    def step(self, maze_action: Any) -> Reply:
        return self.outside.step(maze_action)

    def is_over(self) -> bool:
        return self.outside.is_over()


def play_for(batch: VectorEnv, policy: Policy, outside: Outside, seed: int | None, deterministic: bool) -> None:
    """Play episodes one after the other, as rollouts do; the batch restarts its only environment by itself."""
    only = np.zeros(1, np.int64)
    if seed is not None:
        policy.seed(seed)
    tick = batch.reset([[] if seed is None else [seed]])
    policy.begin_episodes(only)
    while not outside.is_over():
        actions = {key: policy.act(key, group, deterministic=deterministic) for key, group in tick.groups.items()}
        tick = batch.step(actions)
        if tick.terminated[0] or tick.truncated[0]:
            policy.begin_episodes(only)
