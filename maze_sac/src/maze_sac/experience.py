"""Where the data comes from: training environments, the acting policies, and the replay buffer behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.env.tick import ArrayDict, Group
from maze_kernel.models.contract import ActionValueModel, Policy, PolicyContext
from maze_kernel.rollout.buffer import RolloutBuffer
from maze_kernel.rollout.collector import Collector
from maze_kernel.rollout.random_policy import RandomPolicy
from maze_kernel.training.contract import TrainerContext
from maze_sac.options import SACOptions
from maze_sac.replay import ReplayBuffer


class _Switch:
    """Acts with one of two policies."""

    def __init__(self, network: Policy, initial: Policy) -> None:
        self.network, self.initial = network, initial
        self.acting = network

    def act(self, policy_key: str, group: Group, *, deterministic: bool = False) -> ArrayDict:
        return self.acting.act(policy_key, group, deterministic=deterministic)

    def begin_episodes(self, env_index: np.ndarray) -> None:
        self.acting.begin_episodes(env_index)

    def seed(self, seed: int) -> None:
        self.network.seed(seed)
        self.initial.seed(seed)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        return None


class Experience:
    """Collects rollouts with the newest weights, or with the initial policy, into a replay buffer.

    Args:
        context: of the trainer.
        model: being trained.
        options: of the trainer.
    """

    def __init__(self, context: TrainerContext, model: ActionValueModel, options: SACOptions) -> None:
        self._seeds = context.seeds
        self._vector_env = context.make_vector_env()
        network = context.make_policy(model, 0)
        random = RandomPolicy(PolicyContext(spaces=context.spaces))
        self._policy = _Switch(network, random if options.initial_sampling_policy == "random" else network)
        self._collector = Collector(self._vector_env, self._policy)
        spaces, key, n_envs = context.spaces, self._collector.policy_key, self._vector_env.n_envs
        self._rollout = RolloutBuffer(spaces, key, options.n_rollout_steps, n_envs)
        self.replay = ReplayBuffer(spaces, key, n_envs, options.replay_buffer_size)

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments and action samples from the run's seed and `epoch`, and start new episodes."""
        self._policy.seed(self._seeds.seed("act", epoch))
        env_seeds = self._seeds.seeds(self._vector_env.n_envs, "train-envs", epoch)
        self._collector.reset([[seed] for seed in env_seeds])
        self.replay.begin_episodes()

    def collect(self, *, initial: bool = False) -> int:
        """Store one more rollout; returns the environment steps it took."""
        self._policy.acting = self._policy.initial if initial else self._policy.network
        self._collector.collect(self._rollout)
        return self.replay.add(self._rollout)

    def drain(self) -> dict[str, Any]:
        """Statistics of the episodes finished since the last call."""
        return self._collector.statistics.drain()

    def close(self) -> None:
        """Close the environments."""
        self._vector_env.close()
