"""The trainer: draw perturbations, play them, rank the returns, move the weights."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from maze_es.losses import centered_ranks, gradient, pair_weights
from maze_es.optimizers import make_optimizer
from maze_es.options import ESOptions
from maze_es.population import LocalPopulation, PairReturns, Pairs, PooledPopulation, make_noise, policy_parameters
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_kernel.errors import MazeWarning, NonFiniteError
from maze_runtime.models.agent_networks import refuse_agent_networks
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.models.network_policy import require_sampling
from maze_runtime.rollout.episode_statistics import summarize_episodes
from maze_runtime.rollout.shared_statistics import SharedStatistics, can_share
from maze_runtime.training.counters import Counters
from maze_runtime.training.gradient_norms import GradientNorms, actor_critic_parts


class EvolutionTrainer:
    """Evolution strategies on the weights of all policies of an environment; an epoch is one update.

    Raises:
        RequestError: the device does not exist, the noise table is too short, or the model has a network an agent or
            acts by another rule than its distributions.
    """

    def __init__(self, context: TrainerContext, options: ESOptions) -> None:
        self.options = options
        self.model: ActorCritic = context.make_model().to(resolve_device(options.device))  # type: ignore[attr-defined]
        self.model.eval()  # nothing takes a gradient
        self._context = context
        refuse_agent_networks(self.model, "maze-es")
        require_sampling(self.model, "maze-es")
        self._flat = policy_parameters(self.model)
        by_key = actor_critic_parts(self.model)
        self._norms = GradientNorms(
            self._flat,
            {name.replace("policy_grad_norm", "gradient_norm"): own for name, own in by_key.items() if "/" in name},
        )
        self._optimizer = make_optimizer(len(self._flat.data), options.optimizer)
        self._population = self._make_population()
        self._rng = np.random.default_rng()
        self._counters = Counters(options, context.progress)
        self._may_be_zero_sum = context.spaces.pays_differences

    def _make_population(self) -> LocalPopulation | PooledPopulation:
        context, options, seed = self._context, self.options, self._context.seeds.seed("noise-table")
        if context.has_workers:
            make_envs = partial(context.make_actor_envs, context.n_envs, 0)
            shared = SharedStatistics(context.transforms, "maze-es", "or train without a [workers] table")
            add_events = context.add_events
            return PooledPopulation(context.make_workers, self.model, make_envs, options, seed, add_events, shared)
        noise = make_noise(options, len(self._flat.data), seed)
        envs = context.make_vector_env()
        own = SharedStatistics([one for one in context.transforms if can_share(one)], "maze-es", "")
        return LocalPopulation(self.model, self._flat, envs, noise, options, context.add_events, own)

    @property
    def env_steps(self) -> int:
        """Environment steps so far, of the episodes that were used."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Everything random from here on depends on the run's seed and `epoch` alone."""
        self._rng = self._context.seeds.generator("perturbations", epoch)

    def train_epoch(self) -> Statistics:
        """One update."""
        start = time.perf_counter()
        with threads_for(len(self._flat.data), self._context.n_envs):
            center = self._flat.data.cpu().numpy().copy()
            indices, outcome = self._play(center)
            played = time.perf_counter()
            self._counters.report(1.0, "update", float(outcome.returns.mean()))
            self._tell_of_zero_sums(outcome.returns)
            events = self._update(center, indices, outcome.returns)
        self._counters.epoch += 1
        n_steps = int(outcome.lengths.sum())
        self._counters.env_steps += n_steps
        end = time.perf_counter()
        return {
            **summarize_episodes(outcome.returns.reshape(-1), outcome.lengths.reshape(-1)),
            **{f"ESEvents/{name}": value for name, value in events.items()},
            "Timing/rollout_seconds": played - start,
            "Timing/update_seconds": end - played,
            "Timing/env_steps_per_second": n_steps / max(1e-9, end - start),
        }

    def _play(self, center: np.ndarray) -> tuple[np.ndarray, PairReturns]:
        """Noise indices (M,) and what came of them, until there are enough episodes and steps."""
        n_pairs = (self.options.n_rollouts_per_update + 1) // 2
        rounds: list[tuple[Pairs, PairReturns]] = []
        n_steps, n_wanted = 0, self.options.n_timesteps_per_update
        while not rounds or n_steps < n_wanted:
            so_far = np.concatenate([own.returns.ravel() for _, own in rounds]).mean() if rounds else None
            part = min(0.99, n_steps / n_wanted) if n_wanted else 0.0
            self._counters.report(part, "rollout", None if so_far is None else float(so_far))
            pairs = self._draw(n_pairs, rounds[0][0].env_seeds[0] if rounds else None)
            outcome = self._population.play(center, pairs)
            rounds.append((pairs, outcome))
            n_steps += int(outcome.lengths.sum())
        indices = np.concatenate([pairs.noise_indices for pairs, _ in rounds])
        returns = np.concatenate([outcome.returns for _, outcome in rounds], axis=1)
        lengths = np.concatenate([outcome.lengths for _, outcome in rounds], axis=1)
        return indices, PairReturns(returns=returns, lengths=lengths)

    def _tell_of_zero_sums(self, returns: np.ndarray) -> None:
        """Warn once where the returns of opponents, who are ranked by what all of them get, are all the same."""
        if self._may_be_zero_sum and np.allclose(returns, returns[0, 0]):
            self._may_be_zero_sum = False
            warnings.warn(
                f"all {returns.size} episodes of an update brought {returns[0, 0]:g}, so it learnt nothing: ES ranks"
                " what all agents get together, and what one opponent wins the other loses. Let one learn at a time"
                " (random_agents of [env] move at random and are not paid), or train by another algorithm, such as ppo",
                MazeWarning,
                stacklevel=2,
            )

    def _draw(self, n_pairs: int, first_env_seed: int | None = None) -> Pairs:
        """Pairs to play; `first_env_seed` is that of the update's first pair, if it was drawn before."""
        noise_indices = self._population.noise.draw_indices(self._rng, n_pairs)
        env_seeds = self._rng.integers(2**31, size=n_pairs)
        if self.options.same_episode:
            env_seeds[:] = env_seeds[0] if first_env_seed is None else first_env_seed
        return Pairs(
            noise_indices=noise_indices,
            env_seeds=env_seeds,
            policy_seed=int(self._rng.integers(2**31)),
            noise_stddev=self._counters.scheduled(self.options.noise_stddev),
        )

    def _update(self, center: np.ndarray, indices: np.ndarray, returns: np.ndarray) -> dict[str, float]:
        """Ascend the ranked returns, descend the weight decay: θ ← θ + optimiser(−g + λθ)."""
        options = self.options
        noise_stddev, step_size = map(self._counters.scheduled, (options.noise_stddev, options.optimizer.step_size))
        weights = pair_weights(centered_ranks(returns))
        ascent = gradient(weights, self._population.noise.vectors(indices), noise_stddev)
        change = self._optimizer.step(np.float32(options.l2_penalty) * center - ascent, step_size, center)
        updated = center + change
        if not np.isfinite(updated).all():
            raise NonFiniteError(
                "an update is not finite; no weight was changed by it",
                received=f"NaN or infinity after {self.env_steps} environment steps",
                owner="maze-es",
                help="lower trainer.optimizer.step_size",
            )
        self._flat.data.copy_(torch.from_numpy(updated))
        return {
            "gradient_norm": float(np.linalg.norm(ascent)),
            **self._norms.named(torch.from_numpy(ascent)),
            "update_norm": float(np.linalg.norm(change)),
            "weight_norm": float(np.linalg.norm(updated)),
            "noise_stddev": noise_stddev,
            "step_size": step_size,
            "rank_difference": float(np.abs(weights).mean() * 2.0),
            "pair_count": float(len(indices)),
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser and counters; everything random is seeded anew by `start_segment`."""
        return {"optimizer": self._optimizer.state_dict(), **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Close the environments, or stop the workers."""
        self._population.close()
