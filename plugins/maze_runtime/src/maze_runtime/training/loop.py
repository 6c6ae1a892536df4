"""The epoch loop that every algorithm shares: train, evaluate the weights just trained, select, log, save."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import torch

from maze_kernel.contracts.logger import EpochRecord, Outcome, Progress
from maze_kernel.contracts.trainer import Statistics, Trainer
from maze_kernel.errors import CheckpointError, ComponentError
from maze_kernel.selection import Selection
from maze_runtime.events.declaration import histogram
from maze_runtime.models.activations import activations_of
from maze_runtime.models.head_distributions import head_distributions
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.directory import require_present
from maze_runtime.run.fan_out import FanOut
from maze_runtime.run.metric_text import MEAN_REWARD
from maze_runtime.run.placing import in_use
from maze_runtime.run.trainer_contract import checked_state, require_step_count
from maze_runtime.training.budget import Budget
from maze_runtime.training.callbacks import Callbacks
from maze_runtime.training.checkpoint import Checkpoint, EarlyStop, LoopState, require_finite_weights
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.divergence import DivergenceWatch
from maze_runtime.training.epoch_beginning import EpochBeginning
from maze_runtime.training.evaluation import Evaluators
from maze_runtime.training.interruption import Interruption, LeaveEpoch
from maze_runtime.training.kept_memory import freed_memory_is_kept
from maze_runtime.training.metric import EPISODE_COUNT, Metric
from maze_runtime.training.run_files import save_normalization
from maze_runtime.training.run_in_progress import RunInProgress
from maze_runtime.training.segments import SegmentWatch
from maze_runtime.training.state_tree import StateError
from maze_runtime.training.trainer_statistics import checked_statistics


class Loop:
    """One run of the epoch loop.

    Args:
        state: zero, or what a checkpoint held.

    Attributes:
        callbacks: called between epochs.
        seen: what they are shown.
        record: of the last epoch that was trained here; None before.
    """

    def __init__(
        self,
        *,
        assembly: Assembly,
        trainer: Trainer,
        evaluators: Evaluators,
        store: CheckpointStore,
        loggers: FanOut,
        budget: Budget,
        state: LoopState | None = None,
    ) -> None:
        self.assembly = assembly
        self.trainer = trainer
        self.evaluators = evaluators
        self.store = store
        self.loggers = loggers
        self.budget = budget
        self.state = state or LoopState()
        selects: str = getattr(trainer, "metric", MEAN_REWARD)
        self.metric = Metric.of_experiment(assembly.experiment, selects)
        self.metric.check_name()
        self._started = time.monotonic()
        self._best: Checkpoint | None = None
        self._saved_epoch = self.state.epoch
        self.record: EpochRecord | None = None
        self.callbacks = Callbacks()
        self.seen = RunInProgress(self, store.folder.parent)
        self._is_of_run = (store.folder.parent / "run.json").is_file()
        self._beginning = EpochBeginning(store, trainer, assembly)
        self._divergence = DivergenceWatch(loggers.message)
        self._segment = SegmentWatch(loggers.message)
        assembly.training_batches.events.order = list(self.state.training_events)
        evaluators.load_loop_state(self.state)

    def run(self, interruption: Interruption) -> Outcome:
        """Train until a budget is used up, patience ends, or a signal arrives, which waits for one update at most.

        Raises:
            NonFiniteError: NaN or infinity in weights, or raised by the trainer or an environment.
            CheckpointError: the last checkpoint could not be written.
        """
        outcome = self.begin()
        while outcome is None:
            outcome = self.advance(interruption)
        return outcome

    def begin(self, *, renews_patience: bool = False) -> Outcome | None:
        """What comes before the first epoch; the outcome where there is nothing left to train.

        Args:
            renews_patience: a run that had no patience left goes on, and counts anew.
        """
        reason = self._exhausted()
        if reason is not None:
            return self._outcome("done", reason)
        if renews_patience and (reason := self.budget.out_of_patience(self.state)) is not None:
            self.loggers.message(f"the run had stopped early: {reason}; it goes on, and its patience begins anew")
            self.state.stale_evaluations = 0
        early, way_on = self._stopped_before()
        if early is not None:
            self.loggers.message(f"the run had stopped early: {early}; to go on, {way_on}")
            return self._outcome("stopped early", early)
        self.state.early_stop = None
        self._start_segment()
        return None

    def _stopped_before(self) -> tuple[str | None, str]:
        """Why a run that is resumed has nothing left to train, and what would change that; None where it has."""
        reason = self.budget.out_of_patience(self.state)
        if reason is not None:
            more = f"raise trainer.patience, which is {self.budget.patience} (0 is no limit), and resume it again"
            return reason, f"{more}, or from Python call train(n_epochs=...)"
        stop = self.state.early_stop
        if stop is not None and stop.callback in self._callback_tables().values():
            return stop.reason, "change that callback or leave it out, and resume it again"
        return None, ""

    def _callback_tables(self) -> dict[str, str]:
        """The tables of the experiment's callbacks as JSON, by the name of the callback."""
        tables = self.assembly.loaded.resolved.get("callbacks") or ()
        as_json = (json.dumps(table, sort_keys=True, default=repr) for table in tables)
        return dict(zip(self.callbacks.names, as_json, strict=False))

    def _early_stop(self) -> EarlyStop | None:
        """What a resumed run is to know of a callback that ends this one."""
        reason, callback = self.seen.stop_reason, self._callback_tables().get(self.seen.stopped_by)
        return None if reason is None or callback is None else EarlyStop(reason=reason, callback=callback)

    def advance(self, interruption: Interruption) -> Outcome | None:
        """Train one epoch, evaluate, select, log and save; the outcome if it was the last one.

        Raises: as `run`.
        """
        train = None if interruption.received else self._train_epoch(interruption)
        if train is None:
            # What is evaluated does not depend on when a signal comes: a resumed run measures what it would have.
            return self.stop("interrupted", f"by {interruption.received}")
        require_finite_weights(_weights(self.trainer), f"after epoch {self.state.epoch} the weights")
        done = self._exhausted()
        evaluation = self._evaluate(bool(done))
        value = self._value(train, evaluation)
        self._log(train, evaluation, value, is_best=self._select(value))
        self._divergence.see(self.state.epoch, train)
        self._segment.see(train)
        self._call_back(evaluation)
        early = self.budget.out_of_patience(self.state) or self.seen.stop_reason
        if done or early:
            return self.stop("done" if done else "stopped early", done or early or "")
        self._save_at_boundary()
        reason = self.seen.stop_reason
        return None if reason is None else self.stop("stopped early", reason)

    def stop(self, status: str, reason: str) -> Outcome:
        """Save what was trained since the last checkpoint; the run can go on from there.

        Raises:
            CheckpointError: it could not be written.
        """
        early = self._early_stop()
        is_saved = self._saved_epoch == self.state.epoch and self.state.early_stop == early
        self.state.early_stop = early
        if not is_saved:
            self._save()
        return self._outcome(status, reason)

    def _train_epoch(self, interruption: Interruption) -> Statistics | None:
        """One epoch; None where a signal cut it short, and everything is again as it was at its beginning."""
        epoch = self.state.epoch
        self._beginning.keep(
            lambda: self._snapshot(resumable=True), epoch if epoch and epoch == self._saved_epoch else None
        )
        try:
            with interruption.epoch(may_leave=self._beginning.is_known), freed_memory_is_kept():
                self.state.epoch += 1
                train = {**self._trained(), **self.assembly.training_batches.drain_event_statistics()}
        except LeaveEpoch:
            self.state.epoch = epoch
            self._beginning.go_back()
            self.loggers.note(f"epoch {epoch + 1} was cut short: it begins again when the run goes on")
            return None
        self.state.n_episodes += int(train.get(EPISODE_COUNT, 0))
        return train | self._totals()

    def _trained(self) -> Statistics:
        with in_use(self._trainer_table, "train_epoch"):
            statistics = self.trainer.train_epoch()
        require_step_count(self.trainer, self._trainer_table)
        return checked_statistics(statistics, self._trainer_table)

    @property
    def _trainer_table(self) -> Selection:
        return self.assembly.experiment.trainer

    def _totals(self) -> Statistics:
        """Of the whole run so far; nothing where no environment is stepped."""
        if not self.trainer.env_steps:
            return {}
        return {
            "BaseEnvEvents/total_step_count": self.trainer.env_steps,
            "BaseEnvEvents/total_episode_count": self.state.n_episodes,
        }

    def _start_segment(self) -> None:
        """Everything random begins anew from (run seed, epoch), so that a resumed run takes the same path."""
        seed_global_generators(self.assembly.seeds.seed("global", self.state.epoch))
        with in_use(self._trainer_table, "start_segment"):
            self.trainer.start_segment(self.state.epoch)
        self._segment.begin(self.trainer.env_steps)

    def _evaluate(self, last: bool) -> Statistics | None:
        due = self.evaluators.due(self.state.epoch, last)
        if not due:
            return None
        self.loggers.progress(Progress(env_steps=self.trainer.env_steps, fraction=1.0, phase="evaluate"))
        return self.evaluators.evaluate(due, self.trainer.model)

    def _value(self, train: Statistics, evaluation: Statistics | None) -> float | None:
        self.evaluators.remember(train, evaluation)
        return self.evaluators.value(self.metric, train, evaluation)

    def _select(self, value: float | None) -> bool:
        if value is None:
            return False
        state = self.state
        if self.metric.is_better(value, state.best_metric):
            state.best_epoch, state.best_metric, state.stale_evaluations = state.epoch, value, 0
            self._best = self._snapshot(resumable=False)
            return True
        if state.epoch > self.budget.critic_burn_in_epochs:
            state.stale_evaluations += 1
        return False

    def _log(self, train: Statistics, evaluation: Statistics | None, value: float | None, *, is_best: bool) -> None:
        self.record = EpochRecord(
            epoch=self.state.epoch,
            env_steps=self.trainer.env_steps,
            wall_seconds=self._seconds(),
            train={tag: _written(value) for tag, value in train.items()},
            evaluation={tag: _written(value) for tag, value in (evaluation or {}).items()},
            is_best=is_best,
            metric=value,
            best_metric=self.state.best_metric,
        )
        self.loggers.write(self.record)

    def _call_back(self, evaluation: Statistics | None) -> None:
        if evaluation is not None:
            self.callbacks.call("on_evaluation", self.seen)
        self.callbacks.call("on_epoch", self.seen)

    def _save_at_boundary(self) -> None:
        """Save and start a new segment. A full disk is not the end: the next boundary tries again."""
        if self.state.epoch % self.assembly.experiment.checkpoint.every_epochs:
            return
        try:
            self._save()
        except CheckpointError as error:
            self.loggers.message(f"{error.what}; training goes on and saves again at the next checkpoint")
        self._segment.end(self.trainer.env_steps)
        self._start_segment()

    def _outcome(self, status: str, reason: str) -> Outcome:
        return Outcome(
            status=status,
            reason=reason,
            best_epoch=self.state.best_epoch,
            best_metric=self.state.best_metric,
            metric=self.metric.tag,
        )

    def _save(self) -> None:
        if self._is_of_run:
            require_present(self.store.folder.parent)
        checkpoint = self._snapshot(resumable=True)
        try:
            folder = self.store.save(checkpoint, best=self._best, best_epoch=self.state.best_epoch)
        except StateError as error:
            raise _unsavable(error, self.assembly) from None
        self._best = None
        self._saved_epoch = self.state.epoch
        save_normalization(self.store, self.assembly)
        if self.record is not None:
            self.callbacks.call("on_checkpoint", self.seen, folder)

    def _snapshot(self, *, resumable: bool) -> Checkpoint:
        """The run as it is now; weights are copies, so later training cannot change them."""
        model = {name: tensor.detach().clone() for name, tensor in _weights(self.trainer).items()}
        transforms = _copied(self.assembly.transform_states())
        network: Any = self.trainer.model
        of_all: dict[str, Any] = {
            "epoch": self.state.epoch,
            "model": model,
            "transforms": transforms,
            "activations": activations_of(network),
            "distributions": head_distributions(network),
        }
        if not resumable:
            return Checkpoint(**of_all, resumable=False)
        loop = attrs.evolve(
            self.state,
            wall_seconds=self._seconds(),
            training_events=list(self.assembly.training_batches.events.order),
            **self.evaluators.loop_state(),
        )
        with in_use(self._trainer_table, "state_dict"):
            trainer = self.trainer.state_dict()
        trainer = _copied(checked_state(trainer, self._trainer_table))
        return Checkpoint(**of_all, loop=loop, trainer=trainer, callbacks=_copied(self._callback_states()))

    def _callback_states(self) -> dict[str, Any]:
        parts = {"states": self.callbacks.state_dict(), "options": self.seen.changed}
        return {name: part for name, part in parts.items() if part}

    def restore_callbacks(self, saved: Mapping[str, Any]) -> None:
        """Give callbacks their states, and the trainer the options that they changed; `Checkpoint.callbacks`."""
        for name, value in saved.get("options", {}).items():
            self.seen.set_option(name, value)
        for line in self.callbacks.load_state_dict(saved.get("states", {})):
            self.loggers.message(line)

    def _exhausted(self) -> str | None:
        return self.budget.exhausted(self.state, self.trainer.env_steps, self._seconds())

    @property
    def is_out_of_time(self) -> bool:
        """Whether the wall-clock budget is used up."""
        return 0.0 < self.budget.max_seconds <= self._seconds()

    def _seconds(self) -> float:
        return self.state.wall_seconds + time.monotonic() - self._started


def seed_global_generators(seed: int) -> None:
    """Seed the generators that libraries fall back on: random, numpy.random and torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _weights(trainer: Trainer) -> dict[str, Any]:
    model: Any = trainer.model
    return model.state_dict()  # type: ignore[no-any-return]


def _unsavable(error: StateError, assembly: Assembly) -> ComponentError:
    """Whose state it is that a checkpoint cannot hold: the trainer's, or that of a transform."""
    part, _, place = error.path.partition(".")
    selection = assembly.experiment.trainer
    if part == "transforms":
        index, _, place = place.partition(".")
        selection = assembly.transform_selections[int(index)]
    return ComponentError(
        f"the state of {selection.kind} {selection.use!r} cannot be saved",
        phase="saving a checkpoint",
        location=selection.location,
        received=f"{place!r} is {error.kind}",
        expected="dicts and lists of numbers, texts, arrays and tensors",
        owner=selection.owner,
        help="correct state_dict",
    )


def _written(value: Any) -> Any:
    """As loggers take it: a list that an event's epoch statistic gave is a histogram if it holds numbers, else text."""
    if not isinstance(value, list):
        return value
    array = histogram(value)
    return array if array.dtype.kind in "biuf" else str(value)


def _copied(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: _copied(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_copied(value) for value in state]
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    return state.copy() if isinstance(state, np.ndarray) else state
