"""The DQN trainer: act, store, draw, update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_dqn.options import DQNOptions
from maze_dqn.play import OWNER, GreedyPlay, Sample
from maze_dqn.update import STATISTICS, ChoiceBatch, DQNUpdate
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_replay.filling import fill, n_transitions
from maze_replay.transitions import columns_by_key
from maze_runtime.models.agent_networks import refuse_agent_networks
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.key_statistics import named_by_key
from maze_runtime.training.non_finite import non_finite_update
from maze_runtime.training.schedules import scheduled_value


class DQNTrainer:
    """Deep Q-learning, of every policy key of an environment at once.

    Raises:
        SpaceError: an action head holds numbers.
        RequestError: the device does not exist, or the model has one network an agent.
    """

    def __init__(self, context: TrainerContext, options: DQNOptions) -> None:
        self.options = options
        self._device = resolve_device(options.device)
        model: Any = context.make_model()
        refuse_agent_networks(model, OWNER)
        self.model = model.to(self._device)
        self._context = context
        self._update = DQNUpdate(self.model, options)
        self._play = GreedyPlay(context, self.model, self._update.flat, options)
        self._rng = np.random.default_rng()
        self._counters = Counters(options, context.progress)

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, exploration and batches from the run's seed and `epoch`."""
        self._play.start_segment(epoch)
        self._rng = self._context.seeds.generator("replay", epoch)

    def train_epoch(self) -> Statistics:
        """Fill the buffer if it is the first epoch, then `epoch_length` iterations."""
        options, timer, statistics = self.options, EpochTimer(), []
        steps_before = self.env_steps
        with threads_for(self._update.n_parameters, options.batch_size):
            self._fill()
            for i in self._counters.updates(options.epoch_length):
                part = i / options.epoch_length
                if i % 16 == 0:
                    self._counters.report(part, self._update.phase, self._play.mean_return())
                self._play.policy.epsilon = self._epsilon(part)
                n_steps = self._play.collect(options.n_rollout_steps)
                self._counters.env_steps += n_steps
                timer.lap("rollout_seconds")
                statistics += [self._learn(part) for _ in range(options.num_batches_per_iter or max(1, n_steps))]
                timer.lap("update_seconds")
        self._counters.epoch += 1
        learner = torch.stack(statistics)
        # Other devices than the CPU are asked once an epoch, so that no update waits for them.
        if not bool(learner.isfinite().all()):
            raise non_finite_update(f"update {self._update.n_updates} or before", None, owner=OWNER)
        return self._summary(learner.mean(dim=0), timer, self.env_steps - steps_before, len(statistics))

    def _epsilon(self, part_of_epoch: float) -> float:
        used = self._counters.used(part_of_epoch) / self.options.exploration_fraction
        return scheduled_value(self.options.epsilon, used)

    def _fill(self) -> None:
        """Before the first update act at random until there are `initial_buffer_size` transitions."""
        if not self._update.n_updates:
            self._play.policy.epsilon = 1.0
            fill(self._play.replay, self.options.initial_buffer_size, self._act, self._report_filling)

    def _act(self) -> int:
        n_steps = self._play.collect(1)
        self._counters.env_steps += n_steps
        return n_steps

    def _report_filling(self, _n_steps: int) -> None:
        self._counters.report(0.0, "rollout")

    def _learn(self, part_of_epoch: float) -> Tensor:
        """One update; its statistics."""
        options, scheduled = self.options, self._counters.scheduled
        drawn = self._play.sample(self._rng, scheduled(options.importance_exponent, part_of_epoch))
        batches = {key: self._batch(key, sample) for key, sample in drawn.items()}
        statistics, errors = self._update(self._counters.rate_of_update(options.lr, part_of_epoch), batches)
        if self._device.type == "cpu" and not np.isfinite(statistics.numpy()).all():
            raise non_finite_update(
                f"update {self._update.n_updates}",
                columns_by_key({key: sample.transitions for key, sample in drawn.items()}),
                owner=OWNER,
            )
        if options.prioritized:
            self._play.set_errors(drawn, dict(zip(drawn, errors.numpy(force=True), strict=True)))
        return statistics

    def _batch(self, key: PolicyKey, sample: Sample) -> ChoiceBatch:
        transitions, weights, _ = sample
        chosen = self._update.choices[key].columns(transitions.action)
        observation, following = (
            {name: torch.from_numpy(array) for name, array in columns.items()}
            for columns in (transitions.observation, transitions.next_observation)
        )
        columns, reward, discount = map(torch.from_numpy, (chosen, transitions.reward, transitions.discount))
        weight = None if weights is None else torch.from_numpy(weights)
        return ChoiceBatch(observation, columns, reward, following, discount, weight)

    def _summary(self, numbers: Tensor, timer: EpochTimer, n_steps: int, n_updates: int) -> Statistics:
        compile_seconds = self._update.take_compile_seconds()
        learner = named_by_key(STATISTICS, self._update.keys, numbers[:-1]) | {
            "grad_norm": numbers[-1].item(),
            "epsilon": self._play.policy.epsilon,
            "learning_rate": self._counters.reported_rate(self.options.lr),
            "buffer_size": n_transitions(self._play.replay),
            "n_updates": self._update.n_updates,
        }
        return {
            **self._play.drain(),
            **{f"DQNEvents/{name}": value for name, value in learner.items()},
            **timer.statistics(compile_seconds=compile_seconds, env_steps=n_steps, updates=n_updates),
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser, target network, replay buffers and counters."""
        own = {"update": self._update.state_dict(), "play": self._play.state_dict()}
        return {**own, **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._update.load_state_dict(state["update"])
        self._play.load_state_dict(state["play"])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Close the training environments."""
        self._play.close()
