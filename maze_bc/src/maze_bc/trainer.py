"""The BC trainer: minibatches of recorded decisions, gradient steps, validation."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from maze_bc.data import (
    Demonstrations,
    check_demonstrations,
    estimate_transforms,
    require_decisions,
    require_known_keys,
    row_bytes,
    split_episodes,
    through,
)
from maze_bc.imitation import imitation_loss, measure, objectives_of
from maze_bc.minibatches import Batch, Cursor, Minibatches
from maze_bc.optimizer_step import OptimizerStep
from maze_bc.options import BCOptions
from maze_bc.parts import PassSettings
from maze_bc.refusals import (
    FORBIDDEN_LOSS,
    identity_of,
    refuse_forbidden_action,
    refuse_non_finite,
    require_same_episodes,
)
from maze_bc.sequences import SequenceMinibatches
from maze_bc.sources import open_demonstrations
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.contracts.trainer import Statistics, TrainerContext
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.device import resolve_device, threads_for
from maze_runtime.models.flat_parameters import train_policy_only
from maze_runtime.models.recurrence import carries_state
from maze_runtime.training.counters import Counters
from maze_runtime.training.epoch_timer import EpochTimer
from maze_runtime.training.gradient_norms import actor_critic_parts
from maze_runtime.training.gradient_step import GradientStep, LossFunction

MEASURED_BATCHES = 10
"""Last minibatches of an epoch on which the metrics of the training data are measured."""

MEASURED_ROWS = 4096
"""Decisions of a policy key in one forward pass of the validation."""


def make_bc(context: TrainerContext, options: BCOptions) -> BCTrainer:
    """The trainer `bc`."""
    return BCTrainer(context, options, open_demonstrations(options.demonstrations, context, options.processor))


class BCTrainer:
    """Learns to act as recorded episodes do. The training environments are never stepped.

    Args:
        context: of the trainer.
        options: of the trainer.
        demonstrations: the episodes, as recorded: inside of the transforms of the training environments.

    Attributes:
        metric: what selects the best model: the loss on the validation episodes, or on the training episodes where
            there are no others; minimised.
        env_steps: always 0.

    Raises:
        RequestError: there are no decisions, or the device does not exist.
        SpaceError: the episodes are of another environment.
    """

    def __init__(self, context: TrainerContext, options: BCOptions, demonstrations: Demonstrations) -> None:
        self.options = options
        self.env_steps = 0
        self._context = context
        self._device = resolve_device(options.device)
        model: Any = context.make_model().to(self._device)  # type: ignore[attr-defined]
        train_policy_only(model)
        self.model: ActorCritic = model
        self._objectives = objectives_of(model, options)
        self._step = _make_step(model, imitation_loss(self._objectives, options.entropy_coef), options)
        self._make_data(demonstrations)
        self._counters = Counters(options, context.progress)
        self._n_updates = 0

    def _make_data(self, demonstrations: Demonstrations) -> None:
        """Split the episodes; nothing is converted before the transforms have the statistics of the run."""
        context, options = self._context, self.options
        self._demonstrations = demonstrations
        rng = context.seeds.generator("validation")
        useful = [index for index, n_decisions in enumerate(demonstrations.lengths) if n_decisions]
        parts = split_episodes(len(useful), options.validation_percentage, rng)
        training, validation = ([useful[place] for place in part] for part in parts)
        require_known_keys(demonstrations.spaces, context.spaces)
        require_decisions(demonstrations)
        estimate_transforms(demonstrations, training, context.transforms)
        remembers = carries_state(self.model)
        outer = through(demonstrations, context.transforms, whole=remembers)
        check_demonstrations(outer, context.spaces)
        settings = PassSettings(
            targets={key: objective.targets for key, objective in self._objectives.items()},
            batch_size=options.batch_size,
            memory_rows=max(1, (options.memory_limit_mib << 20) // row_bytes(outer.spaces)),
            seeds=context.seeds,
            device=self._device,
        )

        def minibatches_of(episodes: list[int], *, fixed_size: bool) -> Minibatches | SequenceMinibatches:
            if remembers:
                model, length = cast(RecurrentModel, self.model), options.sequence_length
                return SequenceMinibatches(model, outer, episodes, settings, sequence_length=length)
            return Minibatches(outer, episodes, settings, fixed_size=fixed_size)

        self._minibatches = minibatches_of(training, fixed_size=options.compile)
        self._validation = minibatches_of(validation, fixed_size=False) if validation else None
        self._cursor = Cursor(self._minibatches)
        self.metric = f"-train_{'ValidationEvents' if validation else 'ImitationEvents'}/policy_loss"

    def start_segment(self, epoch: int) -> None:
        """Nothing to do: the order of the minibatches follows from the run's seed and their place alone."""

    def train_epoch(self) -> Statistics:
        """Updates to the end of the pass, or `eval_every_k_iterations` of them, then validation."""
        timer = EpochTimer()
        n_updates = self._cursor.remaining()
        if self.options.eval_every_k_iterations:
            n_updates = min(n_updates, self.options.eval_every_k_iterations)
        statistics: list[Tensor] = []
        places: list[tuple[int, int]] = []
        sizes: list[int] = []
        recent: deque[Batch] = deque(maxlen=MEASURED_BATCHES)
        with threads_for(len(self._step.flat.data), self.options.batch_size):
            for index in self._counters.updates(n_updates):
                self._report(index, n_updates)
                places.append((self._cursor.pass_index, self._cursor.batch_index))
                recent.append(self._cursor.take())
                sizes.append(sum(rows.n_rows for rows in recent[-1].values()))
                statistics.append(
                    self._step(self._counters.rate_of_update(self.options.lr, index / n_updates), recent[-1])
                )
            means = self._checked(torch.stack(statistics), places, sizes).mean(dim=0).tolist()
            timer.lap("update_seconds")
            self._counters.epoch += 1
            n_updates = len(places)
            self._n_updates += n_updates
            summary = self._summary(means, recent)
            timer.lap("validation_seconds")
        return {**summary, **self._timing(timer, sum(map(_n_rows, recent)) / len(recent) * n_updates)}

    def _report(self, index: int, n_updates: int) -> None:
        if index % 32 == 0:
            self._counters.report(index / n_updates, self._step.phase())

    def _checked(self, statistics: Tensor, places: list[tuple[int, int]], sizes: list[int]) -> Tensor:
        """The statistics (n, S) of an epoch's updates, of minibatches of so many rows.

        Raises:
            NonFiniteError: one is NaN or infinite; carries its minibatch.
            RequestError: a recorded action is forbidden by its own mask.
        """
        finite = statistics.isfinite().all(dim=-1)
        if not bool(finite.all()):
            index = int((~finite).nonzero()[0])
            refuse_non_finite(self._minibatches.batch(*places[index]), self._n_updates + index + 1)
        suspicious = statistics[:, 0] > FORBIDDEN_LOSS / torch.tensor(sizes, device=statistics.device)
        for index in suspicious.nonzero()[:, 0].tolist():
            refuse_forbidden_action(self.model, self._minibatches.batch(*places[index]))
        return statistics

    def _summary(self, means: list[float], recent: deque[Batch]) -> Statistics:
        model, objectives, spaces = self.model, self._objectives, self._context.spaces
        trained = measure(model, objectives, spaces, recent, self.options.top_k)
        norms = (name if "/" in name else "policy_grad_norm" for name in self._step.norms)
        trained |= dict(zip(("policy_loss", *norms), means, strict=True))
        trained |= {
            "policy_l2_norm": float(torch.linalg.vector_norm(self._step.flat.data)),
            "learning_rate": self._counters.reported_rate(self.options.lr),
            "n_updates": self._n_updates,
        }
        summary: Statistics = {f"ImitationEvents/{name}": value for name, value in trained.items()}
        if self._validation is not None:
            validated = measure(model, objectives, spaces, self._validation.in_order(MEASURED_ROWS), self.options.top_k)
            if validated["policy_loss"] > FORBIDDEN_LOSS / self._validation.n_rows:
                for batch in self._validation.in_order(MEASURED_ROWS):
                    refuse_forbidden_action(model, batch)
            summary |= {f"ValidationEvents/{name}": value for name, value in validated.items()}
        return summary

    def _timing(self, timer: EpochTimer, n_rows: float) -> Statistics:
        compile_seconds = self._step.take_compile_seconds()
        busy = max(1e-9, timer.seconds["update_seconds"] - compile_seconds)
        return {
            **{f"Timing/{name}": seconds for name, seconds in timer.seconds.items()},
            "Timing/samples_per_second": n_rows / busy,
            "Timing/compile_seconds": compile_seconds,
        }

    def state_dict(self) -> dict[str, Any]:
        """Optimiser, place in the data, which those are, and counters."""
        return {
            "episodes": identity_of(self._demonstrations.lengths),
            "optimizer": self._step.state_dict(),
            "cursor": self._cursor.state_dict(),
            **self._counters.state_dict(),
            "n_updates": self._n_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            RequestError: it speaks of other episodes; older states do not say which they were.
        """
        if "episodes" in state:
            require_same_episodes(state["episodes"], identity_of(self._demonstrations.lengths))
        self._step.load_state_dict(state["optimizer"])
        self._cursor.load_state_dict(state["cursor"])
        self._counters.load_state_dict(state)
        self._n_updates = int(state["n_updates"])

    def close(self) -> None:
        """Close what the episodes are read from."""
        self._demonstrations.close()


def _make_step(model: Any, loss: LossFunction, options: BCOptions) -> GradientStep | OptimizerStep:
    norms_of = {name: own for name, own in actor_critic_parts(model).items() if "/" in name}
    if options.optimizer is not None:
        return OptimizerStep(model, loss, options.optimizer, max_grad_norm=options.max_grad_norm, norms_of=norms_of)
    return GradientStep(
        model,
        loss,
        epsilon=options.adam_epsilon,
        max_grad_norm=options.max_grad_norm,
        compiled=options.compile,
        norms_of=norms_of,
        recorded=True,
    )


def _n_rows(batch: Batch) -> int:
    return sum(rows.n_rows if rows.weight is None else int(rows.weight.sum()) for rows in batch.values())
