"""The on-policy trainer: collect a rollout, estimate advantages, update. PPO and A2C plug their update into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.env.contract import StructuredSpaces
from maze_kernel.errors import NonFiniteError, RequestError
from maze_kernel.models.contract import ActorCritic, RecurrentModel
from maze_kernel.models.device import resolve_device, threads_for
from maze_kernel.models.recurrence import carries_state
from maze_kernel.rollout.structured_buffer import StructuredBuffer
from maze_kernel.training.contract import Statistics, TrainerContext
from maze_kernel.training.counters import Counters
from maze_kernel.training.epoch_timer import EpochTimer
from maze_kernel.training.gradient_step import GradientStep, LossFunction
from maze_kernel.training.loss_terms import loss_coefficients
from maze_kernel.training.non_finite import non_finite_update
from maze_ppo.batch import Batch, rollout_batch
from maze_ppo.experience import Experience
from maze_ppo.keyed_batch import KeyedBatch
from maze_ppo.losses import explained_variance
from maze_ppo.objective import Objective, flat_loss, keyed_loss
from maze_ppo.sequences import SequenceBatch, SequenceValuer
from maze_ppo.structured_batch import StructuredRows

Options = Any
"""`PPOOptions` or `A2COptions`: the fields used here are those they have in common."""

Rows = Batch | KeyedBatch | SequenceBatch
"""Rows to train on: one batch, one a policy key in structured environments, or whole sequences for recurrent models."""

Step = Callable[[Rows], Tensor]
"""Takes a gradient step on rows; returns its statistics."""


@attrs.frozen(kw_only=True)
class Algorithm:
    """What tells one on-policy algorithm from another.

    Attributes:
        statistics: names of the numbers a gradient step returns; the last is the gradient norm.
        objective: options -> what rows are to minimise.
        update: (rows, step, options, rng) -> statistics of each gradient step taken on a rollout.
    """

    statistics: tuple[str, ...]
    objective: Callable[[Options], Objective]
    update: Callable[[Any, Step, Options, np.random.Generator], list[Tensor]]


class OnPolicyTrainer:
    """Trains an actor-critic from rollouts of flat or structured environments.

    Raises:
        RequestError: the device does not exist.
    """

    def __init__(self, context: TrainerContext, options: Options, algorithm: Algorithm) -> None:
        self.options = options
        self.model: ActorCritic = context.make_model().to(resolve_device(options.device))  # type: ignore[attr-defined]
        self._context = context
        self._algorithm = algorithm
        self._gradient_step = GradientStep(
            self.model,
            _loss(algorithm, options, context.spaces),
            epsilon=options.adam_epsilon,
            max_grad_norm=options.max_grad_norm,
            compiled=options.compile,
        )
        self._device = self._gradient_step.flat.data.device
        self._experience = Experience(context, self.model, self._gradient_step.flat, options.n_rollout_steps)
        self._structured = StructuredRows(
            self.model,
            self._device,
            gamma=options.gamma,
            gae_lambda=options.gae_lambda,
            fixed_size=options.compile,
        )
        self._sequences = self._make_sequences(context.spaces)
        self._rng = np.random.default_rng()
        self._counters = Counters(options, context.progress)

    @property
    def env_steps(self) -> int:
        """Environment steps so far: flat steps, where a flat step has several decisions."""
        return self._counters.env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, action samples and minibatches from the run's seed and `epoch`."""
        self._experience.start_segment(epoch)
        self._structured.begin()
        if self._sequences is not None:
            self._sequences.begin()
        self._rng = self._context.seeds.generator("minibatches", epoch)

    def train_epoch(self) -> Statistics:
        """`epoch_length` rollouts with their updates."""
        timer = EpochTimer()
        statistics: list[Tensor] = []
        steps_before = self.env_steps
        with threads_for(len(self._gradient_step.flat.data), self._rows_a_step()):
            for i in range(self.options.epoch_length):
                part_of_epoch = i / self.options.epoch_length
                self._counters.report(part_of_epoch, "rollout")
                batch = self._rollout()
                timer.lap("rollout_seconds")
                self._counters.report(part_of_epoch, self._gradient_step.phase())
                statistics += self._update(batch, i)
                timer.lap("update_seconds")
        self._counters.epoch += 1
        return self._summary(statistics, batch, timer, self.env_steps - steps_before)

    def _make_sequences(self, spaces: StructuredSpaces) -> SequenceValuer | None:
        """What trains a model that carries state; None for feed-forward ones."""
        model, options = cast(RecurrentModel, self.model), self.options
        recurrent = [key for key in spaces.policy_keys if carries_state(model, key)]
        if not recurrent:
            return None
        if not spaces.is_flat or options.compile:
            raise RequestError(
                "a model that carries state from step to step cannot be trained here",
                received="compile = true" if spaces.is_flat else f"policy keys {', '.join(spaces.policy_keys)}",
                expected="compile = false, and an environment with one policy key and one agent",
                owner="maze-ppo",
                help="read a stacked history with stateful = false",
            )
        return SequenceValuer(model, recurrent[0], self._device, gamma=options.gamma, gae_lambda=options.gae_lambda)

    def _rows_a_step(self) -> int:
        n_rows: int = self.options.n_rollout_steps * self._context.n_envs
        return min(n_rows, int(getattr(self.options, "batch_size", n_rows)))

    def _rollout(self) -> Rows:
        steps_before = self._experience.collector.env_steps
        buffer = self._experience.collect()
        self._counters.env_steps += self._experience.collector.env_steps - steps_before
        if isinstance(buffer, StructuredBuffer):
            return self._structured.batch(buffer)
        if self._sequences is not None:
            return self._sequences.batch(buffer)
        options = self.options
        return rollout_batch(
            buffer,
            self.model,
            self._device,
            gamma=options.gamma,
            gae_lambda=options.gae_lambda,
            fixed_size=options.compile,
        )

    def _update(self, batch: Rows, update_index: int) -> list[Tensor]:
        if not bool(batch.returns.isfinite().all()):
            raise self._non_finite(batch, update_index, "a return")
        rate = self._counters.scheduled(self.options.lr, update_index / self.options.epoch_length)
        coefficients = loss_coefficients(self.options, self._counters.epoch, self._device)

        def step(rows: Rows) -> Tensor:
            return self._gradient_step(rate, rows, coefficients)

        statistics = self._algorithm.update(batch, step, self.options, self._rng)
        if not bool(torch.stack(statistics).isfinite().all()):
            raise self._non_finite(batch, update_index, "the loss or its gradient")
        return statistics

    def _non_finite(self, batch: Rows, update_index: int, what: str) -> NonFiniteError:
        columns = {name: tensor.detach().cpu().numpy() for name, tensor in batch.columns().items()}
        where = f"update {update_index + 1} of epoch {self._counters.epoch + 1}"
        return non_finite_update(where, columns, owner="maze-ppo", what=what)

    def _summary(self, statistics: list[Tensor], batch: Rows, timer: EpochTimer, n_steps: int) -> Statistics:
        means = torch.stack(statistics).mean(dim=0).tolist()
        learner = dict(zip(self._algorithm.statistics, means, strict=True))
        rows = slice(None) if batch.weight is None else batch.weight > 0
        learner["explained_variance"] = float(explained_variance(batch.value[rows], batch.returns[rows]))
        learner["learning_rate"] = self._counters.scheduled(self.options.lr)
        compile_seconds = self._gradient_step.take_compile_seconds()
        return {
            **self._experience.collector.statistics.drain(),
            **{f"ActorCriticEvents/{name}": value for name, value in learner.items()},
            **timer.statistics(compile_seconds=compile_seconds, env_steps=n_steps),
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser and counters; everything random is seeded anew by `start_segment`."""
        return {"optimizer": self._gradient_step.state_dict(), **self._counters.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._gradient_step.load_state_dict(state["optimizer"])
        self._counters.load_state_dict(state)

    def close(self) -> None:
        """Close the training environments."""
        self._experience.close()


def _loss(algorithm: Algorithm, options: Options, spaces: StructuredSpaces) -> LossFunction:
    if spaces.is_flat:
        return flat_loss(spaces.policy_keys[0], algorithm.objective(options))
    plain = attrs.evolve(options, normalize_advantages=False)
    return keyed_loss(algorithm.objective(plain), normalize=options.normalize_advantages)
