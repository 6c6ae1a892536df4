"""A trainer: the cross-entropy method over the weights of the policy network.

Source: Szita and Lőrincz 2006, "Learning Tetris using the noisy cross-entropy method".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from maze_hello.options import SearchOptions
from maze_kernel.contracts.logger import Progress
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_runtime.models.device import resolve_device
from maze_runtime.rollout.episodes import run_episodes


class CrossEntropySearch:
    """Draws candidates around a mean, keeps the best, and moves mean and spread to them."""

    def __init__(self, context: TrainerContext, options: SearchOptions) -> None:
        self.options = options
        self.model = context.make_model().to(resolve_device(options.device))
        self.env_steps = 0
        self._context = context
        self._policy = context.make_policy(self.model, 0)
        self._env = context.make_vector_env()
        self._weights = [tensor for tensor in self.model.policy_state_dict().values() if tensor.is_floating_point()]
        self._mean = torch.cat([weight.detach().flatten() for weight in self._weights]).double().cpu().numpy()
        self._stddev = np.full_like(self._mean, options.initial_stddev)
        self._rng = np.random.default_rng()

    def start_segment(self, epoch: int) -> None:
        """Everything random from here on depends on the run's seed and `epoch` alone."""
        self._rng = self._context.seeds.generator("search", epoch)

    def train_epoch(self) -> Statistics:
        """One generation."""
        options = self.options
        noise = self._rng.standard_normal((options.population, len(self._mean)))
        candidates = self._mean + self._stddev * noise
        seeds = self._rng.integers(2**31, size=self._env.n_envs).tolist()
        results = [self._play(candidate, seeds, i / options.population) for i, candidate in enumerate(candidates)]
        rewards = np.array([np.mean([episode.total_reward for episode in episodes]) for episodes in results])
        n_elite = max(1, round(options.elite_fraction * options.population))
        elite = candidates[np.argsort(-rewards, kind="stable")[:n_elite]]
        self._mean, self._stddev = elite.mean(axis=0), elite.std(axis=0) + options.extra_stddev
        self._load(self._mean)
        lengths = [episode.length for episodes in results for episode in episodes]
        return {
            "BaseEnvEvents/reward/mean": float(rewards.mean()),
            "BaseEnvEvents/reward/max": float(rewards.max()),
            "BaseEnvEvents/episode_length/mean": float(np.mean(lengths)),
            "BaseEnvEvents/episode_count": len(lengths),
            "SearchEvents/stddev": float(self._stddev.mean()),
        }

    def _play(self, candidate: np.ndarray, seeds: list[int], fraction: float) -> list[Any]:
        """The same episodes for every candidate of a generation: they differ in nothing but their weights."""
        self._context.progress(Progress(env_steps=self.env_steps, fraction=fraction, phase="rollout"))
        self._load(candidate)
        episodes = run_episodes(self._env, self._policy, seeds, deterministic=True)
        self.env_steps += sum(episode.length for episode in episodes)
        return episodes

    def _load(self, flat: np.ndarray) -> None:
        """Write weights into the network where they lie."""
        values = torch.from_numpy(flat).split([weight.numel() for weight in self._weights])
        with torch.no_grad():
            for weight, value in zip(self._weights, values, strict=True):
                weight.copy_(value.view_as(weight))

    def state_dict(self) -> dict[str, Any]:
        """Where the search is; the random stream starts anew at every segment."""
        return {"mean": self._mean, "stddev": self._stddev, "env_steps": self.env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the search that `state_dict` described."""
        self._mean = np.asarray(state["mean"], np.float64)
        self._stddev = np.asarray(state["stddev"], np.float64)
        self.env_steps = int(state["env_steps"])
        self._load(self._mean)

    def close(self) -> None:
        """Close the environments."""
        self._env.close()
