"""The TD3 trainer: act, store, draw, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_kernel.errors import RequestError
from maze_replay.collector import TransitionCollector
from maze_replay.filling import fill, n_transitions
from maze_replay.transitions import Transitions, columns_by_key
from maze_runtime.models.acting_copy import ActingCopy
from maze_runtime.models.action_value_critic import require_action_values
from maze_runtime.models.agent_networks import refuse_agent_networks
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.rollout.episode_statistics import EpisodeReturns
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.key_statistics import named_by_key
from maze_runtime.training.non_finite import non_finite_update
from maze_td3.exploration import GaussianNoise
from maze_td3.options import TD3Options
from maze_td3.update import CRITIC_STATISTICS, POLICY_STATISTICS, NumberBatch, TD3Update

OWNER = "maze-td3"


class TD3Trainer:
    """Twin delayed DDPG, of every policy key of an environment at once.

    Raises:
        SpaceError: an action head chooses.
        RequestError: the device does not exist, or the model has no Q networks, or one network an agent.
    """

    def __init__(self, context: TrainerContext, options: TD3Options) -> None:
        self.options = options
        self._device = resolve_device(options.device)
        model: Any = context.make_model()
        require_action_values(model, OWNER)
        _require_own_critics(model)
        refuse_agent_networks(model, OWNER)
        self.model = model.to(self._device)
        self._context = context
        self._update = TD3Update(self.model, options)
        self._acting = ActingCopy(self.model, self._update.policies)
        policy = context.make_policy(self._acting.model, 0)
        self._policy = GaussianNoise(policy, context.spaces, options.exploration_correlation)
        self._random = RandomPolicy(PolicyContext(spaces=context.spaces))
        self._episodes = EpisodeReturns(context.n_envs)
        self._collector = TransitionCollector(
            context.make_vector_env(),
            gamma=options.gamma,
            size=options.replay_buffer_size,
            report=self._episodes.add_step,
        )
        self._rng = np.random.default_rng()
        self._counters = Counters(options, context.progress)

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, noise and batches from the run's seed and `epoch`, and start new episodes."""
        seeds, n_envs = self._context.seeds, self._context.n_envs
        for policy in (self._policy, self._random):
            policy.seed(seeds.seed("act", epoch))
            policy.begin_episodes(np.arange(n_envs))
        self._collector.reset([[seed] for seed in seeds.seeds(n_envs, "train-envs", epoch)])
        self._episodes.reset()
        self._rng = seeds.generator("replay", epoch)

    def train_epoch(self) -> Statistics:
        """Fill the buffer if it is the first epoch, then `epoch_length` iterations."""
        options, timer = self.options, EpochTimer()
        steps_before = self.env_steps
        learnt: list[tuple[Tensor, Tensor | None]] = []
        with threads_for(self._update.n_parameters, options.batch_size):
            if not self._update.n_updates:
                fill(self._collector.replay, options.initial_buffer_size, self._act_at_random, self._report_filling)
            for i in self._counters.updates(options.epoch_length):
                part = i / options.epoch_length
                if i % 16 == 0:
                    self._counters.report(part, self._update.phase, self._episodes.mean())
                self._policy.scale = self._counters.scheduled(options.exploration_noise, part)
                self._acting.refresh()
                n_steps = self._collector.collect(self._policy, options.n_rollout_steps)
                self._counters.env_steps += n_steps
                timer.lap("rollout_seconds")
                learnt += [self._learn(part) for _ in range(options.num_batches_per_iter or max(1, n_steps))]
                timer.lap("update_seconds")
        self._counters.epoch += 1
        of_critics = torch.stack([statistics for statistics, _ in learnt])
        of_policies = [statistics for _, statistics in learnt if statistics is not None]
        # Other devices than the CPU are asked once an epoch, so that no update waits for them.
        if not all(bool(statistics.isfinite().all()) for statistics in (of_critics, *of_policies)):
            raise non_finite_update(f"update {self._update.n_updates} or before", None, owner=OWNER)
        learner = self._named(CRITIC_STATISTICS, of_critics.mean(dim=0), "critic_grad_norm")
        if of_policies:
            learner |= self._named(POLICY_STATISTICS, torch.stack(of_policies).mean(dim=0), "policy_grad_norm")
        return self._summary(learner, timer, self.env_steps - steps_before, len(learnt))

    def _act_at_random(self) -> int:
        n_steps = self._collector.collect(self._random, 1)
        self._counters.env_steps += n_steps
        return n_steps

    def _report_filling(self, _n_steps: int) -> None:
        self._counters.report(0.0, "rollout")

    def _learn(self, part_of_epoch: float) -> tuple[Tensor, Tensor | None]:
        """One update; its statistics."""
        options = self.options
        drawn = {
            key: replay.sample(options.batch_size, self._rng, n_steps=options.n_step)
            for key, replay in self._collector.replay.items()
        }
        batches = {key: self._batch(key, transitions) for key, transitions in drawn.items()}
        learnt = self._update(self._counters.rate_of_update(options.lr, part_of_epoch), batches)
        if self._device.type == "cpu" and not all(np.isfinite(s.numpy()).all() for s in learnt if s is not None):
            raise non_finite_update(f"update {self._update.n_updates}", columns_by_key(drawn), owner=OWNER)
        return learnt

    def _batch(self, key: PolicyKey, drawn: Transitions) -> NumberBatch:
        observation, action, following = (
            {name: torch.from_numpy(array) for name, array in columns.items()}
            for columns in (drawn.observation, drawn.action, drawn.next_observation)
        )
        noise = self._update.noise(key, len(drawn.reward), self._rng)
        reward, discount, noise_of_target = map(torch.from_numpy, (drawn.reward, drawn.discount, noise))
        encoded = self._update.encoders[key].encode(action)
        return NumberBatch(observation, encoded, reward, following, discount, noise_of_target)

    def _named(self, names: Sequence[str], numbers: Tensor, norm: str) -> dict[str, float]:
        """Statistics by tag; the norm of the gradient is the last number."""
        return named_by_key(names, self._update.keys, numbers[:-1]) | {norm: numbers[-1].item()}

    def _summary(self, learner: dict[str, float], timer: EpochTimer, n_steps: int, n_updates: int) -> Statistics:
        learner |= {
            "exploration_noise": self._policy.scale,
            "learning_rate": self._counters.reported_rate(self.options.lr),
            "buffer_size": n_transitions(self._collector.replay),
            "n_updates": self._update.n_updates,
        }
        compile_seconds = self._update.take_compile_seconds()
        return {
            **self._episodes.drain(),
            **{f"TD3Events/{name}": value for name, value in learner.items()},
            **timer.statistics(compile_seconds=compile_seconds, env_steps=n_steps, updates=n_updates),
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimisers, target networks, replay buffers and counters."""
        replay = {key: buffer.state_dict() for key, buffer in self._collector.replay.items()}
        return {"update": self._update.state_dict(), "replay": replay, **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._update.load_state_dict(state["update"])
        for key, buffer in self._collector.replay.items():
            buffer.load_state_dict(state["replay"][key])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Close the training environments."""
        self._collector.close()


def _require_own_critics(model: Any) -> None:
    if getattr(model, "critic_kind", "") == "shared-state-action":
        raise RequestError(
            "td3 trains Q networks of each policy key, not one pair for all",
            received='critic = "shared-state" in [model]',
            expected='"step-state", or nothing',
            owner=OWNER,
            help="leave it out, or train with sac",
        )
