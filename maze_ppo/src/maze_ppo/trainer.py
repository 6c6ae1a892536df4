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
from maze_kernel.rollout.structured_buffer import StructuredBuffer
from maze_kernel.training.contract import Progress, Statistics, TrainerContext
from maze_kernel.training.gradient_step import GradientStep, LossFunction
from maze_kernel.training.schedules import learning_rate
from maze_kernel.training.stopwatch import Stopwatch
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
        self._epoch = 0
        self._env_steps = 0

    @property
    def env_steps(self) -> int:
        """Environment steps so far: flat steps, where a flat step has several decisions."""
        return self._env_steps

    def start_segment(self, epoch: int) -> None:
        """Re-seed environments, action samples and minibatches from the run's seed and `epoch`."""
        self._experience.start_segment(epoch)
        self._structured.begin()
        if self._sequences is not None:
            self._sequences.begin()
        self._rng = self._context.seeds.generator("minibatches", epoch)

    def train_epoch(self) -> Statistics:
        """`epoch_length` rollouts with their updates."""
        clock = Stopwatch()
        statistics: list[Tensor] = []
        steps_before = self._env_steps
        with threads_for(len(self._gradient_step.flat.data), self._rows_a_step()):
            for i in range(self.options.epoch_length):
                self._report(i, "rollout")
                batch = self._rollout()
                clock.lap("rollout_seconds")
                self._report(i, self._gradient_step.phase())
                statistics += self._update(batch, i)
                clock.lap("update_seconds")
        self._epoch += 1
        return self._summary(statistics, batch, clock, self._env_steps - steps_before)

    def _make_sequences(self, spaces: StructuredSpaces) -> SequenceValuer | None:
        """What trains a model that carries state; None for feed-forward ones."""
        model, options = cast(RecurrentModel, self.model), self.options
        has_states = hasattr(model, "state_shapes")
        recurrent = [key for key in spaces.policy_keys if has_states and model.state_shapes(key)]
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
        self._env_steps += self._experience.collector.env_steps - steps_before
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
            self._refuse_non_finite(batch, update_index, "a return")
        rate = self._learning_rate(update_index / self.options.epoch_length)
        coefficients = self._coefficients()

        def step(rows: Rows) -> Tensor:
            return self._gradient_step(rate, rows, coefficients)

        statistics = self._algorithm.update(batch, step, self.options, self._rng)
        if not bool(torch.stack(statistics).isfinite().all()):
            self._refuse_non_finite(batch, update_index, "the loss or its gradient")
        return statistics

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

    def _refuse_non_finite(self, batch: Rows, update_index: int, what: str) -> None:
        error = NonFiniteError(
            f"{what} is not finite; no weight was changed by it",
            received=f"NaN or infinity in update {update_index + 1} of epoch {self._epoch + 1}",
            owner="maze-ppo",
            help="lower trainer.lr, set trainer.max_grad_norm, or look at the batch saved in the run directory",
        )
        error.batch = {name: tensor.detach().cpu().numpy() for name, tensor in batch.columns().items()}  # type: ignore[attr-defined]
        raise error

    def _report(self, update_index: int, phase: str) -> None:
        fraction = update_index / self.options.epoch_length
        self._context.progress(Progress(env_steps=self._env_steps, fraction=fraction, phase=phase))

    def _summary(self, statistics: list[Tensor], batch: Rows, clock: Stopwatch, n_steps: int) -> Statistics:
        means = torch.stack(statistics).mean(dim=0).tolist()
        learner = dict(zip(self._algorithm.statistics, means, strict=True))
        rows = slice(None) if batch.weight is None else batch.weight > 0
        learner["explained_variance"] = float(explained_variance(batch.value[rows], batch.returns[rows]))
        learner["learning_rate"] = self._learning_rate(0.0)
        timing = {f"Timing/{name}": seconds for name, seconds in clock.seconds.items()}
        compile_seconds = self._gradient_step.take_compile_seconds()
        busy = max(1e-9, sum(clock.seconds.values()) - compile_seconds)
        return {
            **self._experience.collector.statistics.drain(),
            **{f"ActorCriticEvents/{name}": value for name, value in learner.items()},
            **timing,
            "Timing/env_steps_per_second": n_steps / busy,
            "Timing/compile_seconds": compile_seconds,
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser and counters; everything random is seeded anew by `start_segment`."""
        return {"optimizer": self._gradient_step.state_dict(), "epoch": self._epoch, "env_steps": self._env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._gradient_step.load_state_dict(state["optimizer"])
        self._epoch = int(state["epoch"])
        self._env_steps = int(state["env_steps"])

    def close(self) -> None:
        """Close the training environments."""
        self._experience.close()


def _loss(algorithm: Algorithm, options: Options, spaces: StructuredSpaces) -> LossFunction:
    if spaces.is_flat:
        return flat_loss(spaces.policy_keys[0], algorithm.objective(options))
    plain = attrs.evolve(options, normalize_advantages=False)
    return keyed_loss(algorithm.objective(plain), normalize=options.normalize_advantages)
