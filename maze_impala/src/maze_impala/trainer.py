"""The trainer: take a batch of rollouts from the queue, update, hand the new weights to the actors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_impala.batch import Batch, BatchBuffer, make_batch
from maze_impala.options import ImpalaOptions
from maze_impala.rollout_queue import RolloutQueue
from maze_impala.stream_batch import StreamBatch, make_stream_batch
from maze_impala.update import STATISTICS, impala_loss, stream_loss
from maze_kernel.errors import NonFiniteError
from maze_kernel.models.contract import ActorCritic
from maze_kernel.models.device import resolve_device, threads_for
from maze_kernel.models.network_policy import require_sampling
from maze_kernel.training.contract import Progress, Statistics, TrainerContext
from maze_kernel.training.gradient_step import GradientStep
from maze_kernel.training.schedules import learning_rate
from maze_kernel.training.stopwatch import Stopwatch

OWNER = "maze-impala"
LEARNER = ("policy_loss", "value_loss", "entropy", "approx_kl", "explained_variance", "grad_norm", "learning_rate")
"""Statistics that every actor-critic has; the others are those of `ImpalaEvents`."""


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
        self._gradient_step = GradientStep(
            self.model,  # type: ignore[arg-type]
            impala_loss(spaces.policy_keys[0], options) if spaces.is_flat else stream_loss(options),
            epsilon=options.adam_epsilon,
            max_grad_norm=options.max_grad_norm,
            compiled=options.compile,
        )
        self._device = self._gradient_step.flat.data.device
        self._buffer = BatchBuffer(spaces, options.n_rollout_steps, options.actors_batch_size)
        self._queue = RolloutQueue(context, options, self.model)
        self._version = 0
        self._epoch = 0
        self._env_steps = 0

    @property
    def env_steps(self) -> int:
        """Environment steps that were trained on so far."""
        return self._env_steps

    def start_segment(self, epoch: int) -> None:
        """Start the actors at the first call; later ones re-seed them where they take turns with the learner."""
        self._queue.start_segment(epoch)

    def train_epoch(self) -> Statistics:
        """`epoch_length` batches with an update each."""
        watch = Stopwatch()
        statistics: list[Tensor] = []
        lags: list[np.ndarray] = []
        steps_before = self._env_steps
        n_rows = self.options.n_rollout_steps * self.options.actors_batch_size
        with threads_for(len(self._gradient_step.flat.data), n_rows):
            for index in range(self.options.epoch_length):
                self._report(index, "rollout")
                self._queue.fill(self._buffer)
                watch.lap("rollout_seconds")
                self._report(index, self._gradient_step.phase())
                lags.append(self._version - self._buffer.version)
                statistics.append(self._update(index))
                watch.lap("update_seconds")
        self._epoch += 1
        return self._summary(statistics, np.stack(lags), watch, self._env_steps - steps_before)

    def _update(self, index: int) -> Tensor:
        options = self.options
        self._env_steps += self._buffer.n_env_steps()
        batch = self._make_batch()
        statistics = self._gradient_step(self._learning_rate(index / options.epoch_length), batch, self._coefficients())
        if not bool(statistics.isfinite().all()):
            self._refuse_non_finite(batch, index)
        self._version += 1
        self._queue.publish(self._gradient_step.flat.data, self._version)
        return statistics

    def _make_batch(self) -> Batch | StreamBatch:
        options, to = self.options, (self._buffer, self.model, self._device)
        how: dict[str, Any] = {"gamma": options.gamma, "reward_clipping": options.reward_clipping}
        if self._context.spaces.is_flat:
            return make_batch(*to, **how)
        return make_stream_batch(*to, **how, fixed_size=options.compile)

    def _learning_rate(self, part_of_epoch: float) -> float:
        return learning_rate(
            self.options,
            epoch=self._epoch + part_of_epoch,
            env_steps=self._env_steps,
            total_env_steps=self._context.total_env_steps,
        )

    def _coefficients(self) -> Tensor:
        """Weights of policy loss, value loss and entropy, (3,)."""
        options = self.options
        if self._epoch < options.critic_burn_in_epochs:
            return torch.tensor([0.0, 1.0, 0.0], device=self._device)
        weights = [options.policy_loss_coef, options.value_loss_coef, options.entropy_coef]
        return torch.tensor(weights, device=self._device)

    def _refuse_non_finite(self, batch: Batch | StreamBatch, index: int) -> None:
        error = NonFiniteError(
            "the loss or its gradient is not finite; no weight was changed by it",
            received=f"NaN or infinity in update {index + 1} of epoch {self._epoch + 1}",
            owner=OWNER,
            help="lower trainer.lr, set trainer.max_grad_norm, or look at the batch saved in the run directory",
        )
        error.batch = {**self._buffer.arrays(), "bootstrap": batch.bootstrap.cpu().numpy()}  # type: ignore[attr-defined]
        raise error

    def _report(self, index: int, phase: str) -> None:
        fraction = index / self.options.epoch_length
        self._context.progress(Progress(env_steps=self._env_steps, fraction=fraction, phase=phase))

    def _summary(self, statistics: list[Tensor], lags: np.ndarray, watch: Stopwatch, n_steps: int) -> Statistics:
        values = dict(zip(STATISTICS, torch.stack(statistics).mean(dim=0).tolist(), strict=True))
        values["learning_rate"] = self._learning_rate(0.0)
        events = {name: value for name, value in values.items() if name not in LEARNER}
        events |= {
            "policy_lag/mean": float(lags.mean()),
            "policy_lag/min": int(lags.min()),
            "policy_lag/max": int(lags.max()),
            "actor_restarts": self._queue.n_restarts,
        }
        compile_seconds = self._gradient_step.take_compile_seconds()
        busy = max(1e-9, sum(watch.seconds.values()) - compile_seconds)
        return {
            **self._queue.drain(),
            **{f"ActorCriticEvents/{name}": values[name] for name in LEARNER},
            **{f"ImpalaEvents/{name}": value for name, value in events.items()},
            **{f"Timing/{name}": seconds for name, seconds in watch.seconds.items()},
            "Timing/env_steps_per_second": n_steps / busy,
            "Timing/compile_seconds": compile_seconds,
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser and counters; what is in the queue is not saved."""
        return {"optimizer": self._gradient_step.state_dict(), "epoch": self._epoch, "env_steps": self._env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._gradient_step.load_state_dict(state["optimizer"])
        self._epoch = int(state["epoch"])
        self._env_steps = int(state["env_steps"])

    def close(self) -> None:
        """Stop the actors."""
        self._queue.close()
