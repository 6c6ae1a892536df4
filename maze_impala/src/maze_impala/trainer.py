"""The trainer: take a batch of rollouts from the queue, update, hand the new weights to the actors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_impala.batch import BatchBuffer, VTraceBatch, make_batch
from maze_impala.options import ImpalaOptions
from maze_impala.rollout_queue import RolloutQueue
from maze_impala.structured_batch import StructuredVTraceBatch, make_structured_batch
from maze_impala.update import KEY_STATISTICS, STATISTICS, impala_loss, structured_loss
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.models.flat_state import SentWeights
from maze_runtime.models.network_policy import require_sampling
from maze_runtime.training.burn_in import begin_epoch
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.gradient_norms import actor_critic_parts
from maze_runtime.training.gradient_step import GradientStep
from maze_runtime.training.loss_terms import loss_coefficients
from maze_runtime.training.non_finite import non_finite_update
from maze_runtime.training.step_statistics import StepStatistics, names_by_key

OWNER = "maze-impala"
OWN = ("importance_ratio", "clip_fraction")
"""Statistics of `ImpalaEvents`; the others are those that every actor-critic has."""


class ImpalaTrainer:
    """Trains an actor-critic from rollouts of actors that do not wait for it; an epoch is `epoch_length` updates.

    Raises:
        RequestError: the device does not exist, or the model acts by another rule than its distributions.
    """

    def __init__(self, context: TrainerContext, options: ImpalaOptions) -> None:
        self.options = options
        self.model: ActorCritic = context.make_model().to(resolve_device(options.device))  # type: ignore[attr-defined]
        require_sampling(self.model, OWNER)
        self._context = context
        spaces = context.spaces
        self._modules = tuple(self.model.modules())
        self._gradient_step = GradientStep(
            self.model,
            impala_loss(spaces.policy_keys[0], options) if spaces.is_flat else structured_loss(options),
            epsilon=options.adam_epsilon,
            max_grad_norm=options.max_grad_norm,
            compiled=options.compile,
            norms_of=actor_critic_parts(self.model),
            recorded=True,
        )
        self._weights = SentWeights(self.model, self._gradient_step.flat)
        further = ("value", *names_by_key(KEY_STATISTICS, self.model))
        self._columns = StepStatistics(STATISTICS, further, self._gradient_step.norms)
        self._device = self._gradient_step.flat.data.device
        self._buffer = BatchBuffer(self.model, options.n_rollout_steps, options.actors_batch_size)
        self._queue = RolloutQueue(context, options, self.model)
        self._counters = Counters(options, context.progress)
        self._version = 0

    @property
    def env_steps(self) -> int:
        """Environment steps that were trained on so far."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Start the actors at the first call; later ones re-seed them where they take turns with the learner."""
        self._queue.start_segment(epoch)

    def train_epoch(self) -> Statistics:
        """`epoch_length` batches with an update each; one without decisions, of resets alone, is none."""
        timer = EpochTimer()
        statistics: list[Tensor] = []
        lags: list[np.ndarray] = []
        steps_before = self.env_steps
        n_rows = self.options.n_rollout_steps * self.options.actors_batch_size
        begin_epoch(self._gradient_step, self.model, self.options, self._counters.epoch)
        with threads_for(len(self._gradient_step.flat.data), n_rows):
            for index in self._counters.updates(self.options.epoch_length):
                part_of_epoch = index / self.options.epoch_length
                self._counters.report(part_of_epoch, "rollout", self._queue.mean_return())
                self._queue.fill(self._buffer)
                timer.lap("rollout_seconds")
                if self._buffer.rollouts.void.all():
                    continue
                self._counters.report(part_of_epoch, self._gradient_step.phase(), self._queue.mean_return())
                lags.append(self._version - self._buffer.version)
                statistics.append(self._update(index))
                timer.lap("update_seconds")
        self._counters.epoch += 1
        return self._summary(statistics, lags, timer, self.env_steps - steps_before)

    def _update(self, index: int) -> Tensor:
        self._counters.env_steps += self._buffer.n_env_steps()
        with evaluation_mode(self._modules):
            batch = self._make_batch()
        rate = self._counters.rate_of_update(self.options.lr, index / self.options.epoch_length)
        coefficients = loss_coefficients(self.options, self._counters.epoch, self._device)
        statistics = self._gradient_step(rate, batch, coefficients)
        if not self._columns.are_finite(statistics):
            columns = {**self._buffer.arrays(), "bootstrap": batch.bootstrap.cpu().numpy()}
            raise non_finite_update(f"update {index + 1} of epoch {self._counters.epoch + 1}", columns, owner=OWNER)
        self._version += 1
        self._queue.publish(self._weights.pack(), self._version)
        return statistics

    def _make_batch(self) -> VTraceBatch | StructuredVTraceBatch:
        options, to = self.options, (self._buffer, self.model, self._device)
        how: dict[str, Any] = {"gamma": options.gamma, "reward_clipping": options.reward_clipping}
        if self._context.spaces.is_flat:
            return make_batch(*to, **how)
        return make_structured_batch(*to, **how, fixed_size=options.compile)

    def _summary(self, statistics: list[Tensor], lags: list[np.ndarray], timer: EpochTimer, n_steps: int) -> Statistics:
        values = self._columns.means(torch.stack(statistics)) if statistics else {}
        events: dict[str, float] = {name: values.pop(name) for name in OWN if statistics} | _lags(lags)
        values["learning_rate"] = self._counters.reported_rate(self.options.lr)
        events["actor_restarts"] = self._queue.n_restarts
        compile_seconds = self._gradient_step.take_compile_seconds()
        return {
            **self._queue.drain(),
            **{f"ActorCriticEvents/{name}": value for name, value in values.items()},
            **{f"ImpalaEvents/{name}": value for name, value in events.items()},
            **timer.statistics(compile_seconds=compile_seconds, env_steps=n_steps),
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser and counters; what is in the queue is not saved."""
        return {"optimizer": self._gradient_step.state_dict(), **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._gradient_step.load_state_dict(state["optimizer"])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Stop the actors."""
        self._queue.close()


def _lags(lags: list[np.ndarray]) -> dict[str, float]:
    """By how many updates the weights that made the rollouts of each batch, (B,), were behind; nothing of none."""
    if not lags:
        return {}
    joined = np.stack(lags)
    return {
        "policy_lag/mean": float(joined.mean()),
        "policy_lag/min": int(joined.min()),
        "policy_lag/max": int(joined.max()),
    }
