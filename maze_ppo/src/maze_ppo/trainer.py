"""What PPO and A2C have in common: rollouts, estimates, gradient steps, and epochs made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_kernel.errors import NonFiniteError
from maze_ppo.batch import KEY_STATISTICS, Minibatch, RolloutBatch
from maze_ppo.estimation import make_estimator
from maze_ppo.experience import RolloutSource
from maze_ppo.options import OnPolicyOptions
from maze_ppo.structured_batch import StructuredBatch
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.models.same_operations import runs_same_operations
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.structured_buffer import StructuredBuffer
from maze_runtime.training.burn_in import begin_epoch
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.gradient_norms import actor_critic_parts
from maze_runtime.training.gradient_step import GradientStep
from maze_runtime.training.loss_terms import loss_coefficients
from maze_runtime.training.non_finite import non_finite_update
from maze_runtime.training.step_statistics import StepStatistics, names_by_key
from maze_runtime.training.weighted import explained_variance


class OnPolicyAlgorithm(Protocol):
    """What tells one on-policy algorithm from another."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of what `loss` reports of all decisions together."""
        ...

    @property
    def needs_log_prob(self) -> bool:
        """Whether `loss` reads the log-probabilities of the weights that acted."""
        ...

    def update(self, trainer: OnPolicyTrainer) -> list[Tensor]:
        """Collect one rollout and learn from it; returns the statistics of every gradient step.

        There is none where the rollout holds no decision: environments were only reset.
        """
        ...

    @property
    def loss(self) -> Callable[[Any, Minibatch, Tensor], tuple[Tensor, Tensor]]:
        """`(model, minibatch, coefficients (3,)) -> (loss (), statistics)`; see `loss_coefficients`.

        The statistics are those that are named, and behind them what `Minibatch.with_means_by_key` adds.
        """
        ...


class OnPolicyTrainer:
    """Trains an actor-critic from rollouts of flat or structured environments.

    An algorithm's update is written in terms of `collect`, `estimate` and `step`.

    Args:
        context: of the trainer.
        options: of the trainer.
        algorithm: says how rollouts are learnt from.

    Attributes:
        rng: for the order of minibatches.

    Raises:
        RequestError: the device does not exist.
    """

    def __init__(self, context: TrainerContext, options: OnPolicyOptions, algorithm: OnPolicyAlgorithm) -> None:
        self.options = options
        self.model: ActorCritic = context.make_model().to(resolve_device(options.device))  # type: ignore[attr-defined]
        self._modules = tuple(self.model.modules())
        self.rng = np.random.default_rng()
        self._context = context
        self._algorithm = algorithm
        self._gradient_step = GradientStep(
            self.model,
            algorithm.loss,
            epsilon=options.adam_epsilon,
            max_grad_norm=options.max_grad_norm,
            compiled=options.compile,
            norms_of=actor_critic_parts(self.model),
            recorded=runs_same_operations([algorithm]),
        )
        by_key = names_by_key(KEY_STATISTICS, self.model)
        self._columns = StepStatistics(algorithm.statistics, by_key, self._gradient_step.norms)
        flat = self._gradient_step.flat
        self._device = flat.data.device
        self._source = RolloutSource(context, self.model, flat, options.n_rollout_steps)
        self._estimator = make_estimator(
            self.model, context.spaces, self._device, options, needs_log_prob=algorithm.needs_log_prob
        )
        self._counters = Counters(options, context.progress)
        self._timer = EpochTimer()
        self._update_index = 0

    # What an algorithm's update is made of

    def collect(self) -> RolloutBuffer | StructuredBuffer:
        """The next rollout, made with the newest weights; the one before is overwritten."""
        self._counters.report(self._part_of_epoch, "rollout", self._source.collector.statistics.mean())
        rollout, n_steps = self._source.collect()
        self._estimator.forget(self._source.collector.restarted)
        self._counters.env_steps += n_steps
        self._timer.lap("rollout_seconds")
        return rollout

    def estimate(self, rollout: RolloutBuffer | StructuredBuffer) -> RolloutBatch:
        """Values, log-probabilities and advantages of a rollout, by the weights that made it.

        Raises:
            NonFiniteError: a return is NaN or infinite.
        """
        with evaluation_mode(self._modules):
            self._batch = self._estimator.estimate(rollout)
        self._timer.lap("rollout_seconds")
        if not bool(self._batch.rows.returns.isfinite().all()):
            raise self._non_finite("a return")
        phase = self._gradient_step.phase()
        self._counters.report(self._part_of_epoch, phase, self._source.collector.statistics.mean())
        self._learning_rate = self._counters.rate_of_update(self.options.lr, self._part_of_epoch)
        self._coefficients = loss_coefficients(self.options, self._counters.epoch, self._device)
        return self._batch

    def step(self, minibatch: Minibatch) -> Tensor:
        """Take a gradient step on the algorithm's loss; returns its statistics and the gradient norms, (S,)."""
        return self._gradient_step(self._learning_rate, minibatch, self._coefficients)

    # What the loop asks of a trainer

    @property
    def env_steps(self) -> int:
        """Environment steps so far: flat steps, where a flat step has several decisions."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, action samples and minibatches from the run's seed and `epoch`."""
        self._source.start_segment(epoch)
        self._estimator.begin()
        self.rng = self._context.seeds.generator("minibatches", epoch)

    def train_epoch(self) -> Statistics:
        """`epoch_length` rollouts with their updates.

        Raises:
            NonFiniteError: a return, the loss or its gradient is NaN or infinite; no weight was changed by it.
        """
        self._timer = EpochTimer()
        statistics: list[Tensor] = []
        steps_before = self.env_steps
        begin_epoch(self._gradient_step, self.model, self.options, self._counters.epoch)
        with threads_for(len(self._gradient_step.flat.data), self._rows_a_step()):
            for index in self._counters.updates(self.options.epoch_length):
                self._update_index = index
                of_update = self._algorithm.update(self)
                if of_update and not self._columns.are_finite(torch.stack(of_update)):
                    raise self._non_finite("the loss or its gradient")
                statistics += of_update
                self._timer.lap("update_seconds")
        self._counters.epoch += 1
        return self._summary(statistics, self.env_steps - steps_before)

    def state_dict(self) -> dict[str, Any]:
        """Optimiser and counters; everything random is seeded anew by `start_segment`."""
        return {"optimizer": self._gradient_step.state_dict(), **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._gradient_step.load_state_dict(state["optimizer"])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Close the training environments."""
        self._source.close()

    @property
    def _part_of_epoch(self) -> float:
        return self._update_index / self.options.epoch_length

    def _rows_a_step(self) -> int:
        n_rows: int = self.options.n_rollout_steps * self._context.n_envs
        return min(n_rows, int(getattr(self.options, "batch_size", n_rows)))

    def _non_finite(self, what: str) -> NonFiniteError:
        columns = {name: tensor.detach().cpu().numpy() for name, tensor in self._batch.columns().items()}
        where = f"update {self._update_index + 1} of epoch {self._counters.epoch + 1}"
        return non_finite_update(where, columns, owner="maze-ppo", what=what)

    def _summary(self, statistics: list[Tensor], n_steps: int) -> Statistics:
        learner = self._of_steps(torch.stack(statistics)) if statistics else {}
        learner["learning_rate"] = self._counters.reported_rate(self.options.lr)
        compile_seconds = self._gradient_step.take_compile_seconds()
        return {
            **self._source.drain(),
            **{f"ActorCriticEvents/{name}": value for name, value in learner.items()},
            **self._timer.statistics(compile_seconds=compile_seconds, env_steps=n_steps),
        }

    def _of_steps(self, statistics: Tensor) -> dict[str, float]:
        """Means over the gradient steps of an epoch, and what the critic made of the last rollout."""
        learner = self._columns.means(statistics) | _of_critic(self._batch)
        rows = self._batch.rows
        if self._columns.further and isinstance(rows, StructuredBatch):
            for key, own in rows.by_key().items():
                learner |= {f"{name}/{key}": value for name, value in _of_critic(own).items()}
        return learner


def _of_critic(batch: RolloutBatch) -> dict[str, float]:
    """How high a rollout was valued when it was made, and how well."""
    rows = batch.rows
    counted = slice(None) if rows.weight is None else rows.weight > 0
    value, returns = rows.value[counted], rows.returns[counted]
    return {"explained_variance": float(explained_variance(value, returns)), "value": float(value.mean())}
