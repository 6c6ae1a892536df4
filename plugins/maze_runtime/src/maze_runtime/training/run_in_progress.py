"""A run as its callbacks see it: where it stands, what it measured, and what they may do to it."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from maze_kernel.catalog import nearest
from maze_kernel.errors import RequestError
from maze_runtime.training.metric import Metric
from maze_runtime.training.schedules import Schedule

if TYPE_CHECKING:
    from maze_kernel.config.experiment import Experiment
    from maze_kernel.contracts.logger import EpochRecord
    from maze_kernel.contracts.trainer import Trainer
    from maze_runtime.run.assembly import Assembly
    from maze_runtime.run.fan_out import FanOut
    from maze_runtime.training.checkpoint import LoopState
    from maze_runtime.training.evaluation import Evaluators


class LoopParts(Protocol):
    """What is read of the loop."""

    assembly: Assembly
    trainer: Trainer
    evaluators: Evaluators
    loggers: FanOut
    state: LoopState
    metric: Metric
    record: EpochRecord | None


class RunInProgress:
    """What a callback is given; the same object in every call.

    Args:
        loop: of the run.
        run_dir: of the run.

    Attributes:
        run_dir: the run directory.
        caller: name of the callback that is running.
        method: of it; empty where none is.
        stop_reason: why a callback stops the run; None while none does.
        stopped_by: name of that callback.
        changed: schedules that callbacks have changed, as plain data by option; saved with the run.
    """

    def __init__(self, loop: LoopParts, run_dir: Path) -> None:
        self._loop = loop
        self.run_dir = run_dir
        self.caller = ""
        self.method = ""
        self.stop_reason: str | None = None
        self.stopped_by = ""
        self.changed: dict[str, Any] = {}

    @property
    def experiment(self) -> Experiment:
        """What is trained."""
        return self._loop.assembly.experiment

    @property
    def epoch(self) -> int:
        """The epoch that was just trained, from 1."""
        return self._loop.state.epoch

    @property
    def env_steps(self) -> int:
        """Environment steps of the whole run."""
        return self._loop.trainer.env_steps

    @property
    def record(self) -> EpochRecord:
        """The statistics of the epoch, as loggers get them; `evaluation` is empty where there was none."""
        assert self._loop.record is not None, "callbacks are called after an epoch"
        return self._loop.record

    @property
    def model(self) -> Any:
        """With the weights as they are now; a callback does not change them."""
        return self._loop.trainer.model

    @property
    def metric(self) -> Metric:
        """The statistic that selects the best model, and whether less is better."""
        return self._loop.metric

    @property
    def best_metric(self) -> float | None:
        """Its best value so far; None before the first one."""
        return self._loop.state.best_metric

    @property
    def best_epoch(self) -> int | None:
        """The epoch of that value."""
        return self._loop.state.best_epoch

    @property
    def stale_evaluations(self) -> int:
        """Evaluations since the best one, or since patience began (anew); none in `critic_burn_in_epochs`."""
        return self._loop.state.stale_evaluations

    def value(self, tag: str) -> float | None:
        """A statistic of this epoch; None in an epoch without it.

        Args:
            tag: an evaluation statistic without its prefix, "NAME/" before it for that of an evaluator with a name, or
                a training one with "train_".

        Raises:
            RequestError: an evaluation took place and there is no such statistic.
        """
        record, metric = self.record, Metric(tag, evaluators=self.metric.evaluators)
        try:
            return self._loop.evaluators.value(metric, record.train, record.evaluation or None)
        except RequestError as error:
            error.received = repr(tag)
            raise

    def stop(self, reason: str) -> None:
        """End the run when the callbacks are through: it is saved, and counts as stopped early.

        Args:
            reason: for the loggers and the result.
        """
        if self.stop_reason is None:
            self.stop_reason, self.stopped_by = f"{self.caller}: {reason}", self.caller

    def option(self, name: str) -> float | Schedule:
        """A schedule of the trainer as it is now, a number or a `Schedule`.

        Raises:
            RequestError: the trainer has no schedule of that name.
        """
        options = self._loop.trainer.options
        _require_schedule(options, name)
        value: float | Schedule = getattr(options, name)
        return value

    def set_option(self, name: str, value: float | Schedule | Mapping[str, Any]) -> None:
        """Change a schedule of the trainer, such as `lr`, from the next update on; a resumed run keeps it.

        Args:
            name: an option that may be a schedule.
            value: a number, or a schedule over the budget of the whole run.

        Raises:
            RequestError: the trainer has no schedule of that name, or refuses the value; or a checkpoint was just
                written, and a run that goes on from it would not know.
        """
        if self.method == "on_checkpoint":
            raise RequestError(
                f"{name} cannot change in on_checkpoint: a run that goes on from that checkpoint would not know of it",
                received=f"set_option({name!r}, {value!r})",
                help="change it in on_epoch, which comes before an epoch is saved",
            )
        trainer = self._loop.trainer
        _require_schedule(trainer.options, name)
        try:
            schedule = Schedule(**value) if isinstance(value, Mapping) else value
            trainer.options = attrs.evolve(trainer.options, **{name: schedule})
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestError(
                f"the trainer refuses {name} = {value!r}: {error.args[0]}",
                expected="a number, or a Schedule",
                help="give a value that an experiment could hold, too",
            ) from error
        self.changed[name] = attrs.asdict(schedule) if isinstance(schedule, Schedule) else float(schedule)

    def message(self, text: str) -> None:
        """A line for the user, kept in `log.txt` too."""
        self._loop.loggers.message(f"{self.caller}: {text}")


def schedules_of(options: Any) -> tuple[str, ...]:
    """The options of a trainer that may be schedules, which it therefore reads anew at every update."""
    if not attrs.has(type(options)):
        return ()
    hints = typing.get_type_hints(type(options))
    return tuple(name for name, hint in hints.items() if Schedule in typing.get_args(hint))


def _require_schedule(options: Any, name: str) -> None:
    names = schedules_of(options)
    if name not in names:
        raise RequestError(
            f"the trainer has no schedule called {name!r}",
            expected=f"one of {', '.join(names)}" if names else "a trainer with options that may be schedules",
            nearest=nearest(name, names),
            help="only options that may be schedules can change while a run goes on",
        )
