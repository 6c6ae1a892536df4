"""In a worker: trains one run after the other, each from evaluation to evaluation, so that its caller decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.contracts.logger import EpochRecord, Outcome
from maze_kernel.errors import WorkerError
from maze_runtime.run.directory import is_unused
from maze_runtime.series.evaluation_log import EvaluationLog, numbers_of

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.workers import ActorContext
    from maze_runtime.training.metric import Metric
    from maze_runtime.training.training_run import TrainingRun


@attrs.frozen(kw_only=True)
class RunTask:
    """A run to train.

    Attributes:
        loaded: the experiment with its kernel; survives transport.
        run_dir: absolute; a run that is there goes on from its newest checkpoint.
        max_seconds: wall-clock budget of the run.
        until_epoch: the last epoch to train; None: as the trainer says.
    """

    loaded: LoadedExperiment
    run_dir: Path
    max_seconds: float | None = None
    until_epoch: int | None = None


@attrs.frozen(kw_only=True)
class RunReport:
    """Where a run stands after an evaluation, or at its end.

    Attributes:
        epoch: the last one that was trained, resumed parts included.
        env_steps: of the whole run.
        wall_seconds: of the whole run, up to that epoch.
        train, evaluation: numbers of that epoch by tag; empty where nothing was trained or evaluated.
        outcome: how training ended; None where it goes on.
        metric: what selects the best model; None in an earlier report.
        earlier: of a run that goes on, the reports there were up to where it does, in the first report only.
    """

    epoch: int
    env_steps: int
    wall_seconds: float = 0.0
    train: Mapping[str, float] = attrs.field(factory=dict)
    evaluation: Mapping[str, float] = attrs.field(factory=dict)
    outcome: Outcome | None = None
    metric: Metric | None = None
    earlier: tuple[RunReport, ...] = ()


class RunActor:
    """Trains the run it was given last; one that it has not finished is saved and left when another one begins."""

    def __init__(self, _context: ActorContext) -> None:
        self._run: TrainingRun | None = None
        self._every_epoch = False

    def begin(self, task: RunTask) -> RunReport:
        """Build everything, nothing trained; the outcome is there at once where the run's budget is used up.

        Raises:
            MazeError: as `maze_runtime.training.train.train`.
        """
        from maze_runtime.training.training_run import TrainingRun

        self.stop("interrupted", "another run began")
        goes_on = task.run_dir.is_dir() and not is_unused(task.run_dir)
        where: dict[str, Any] = {"resume" if goes_on else "run_dir": task.run_dir}
        self._every_epoch = task.loaded.experiment.evaluation.n_episodes == 0
        log = EvaluationLog(task.run_dir, every_epoch=self._every_epoch)
        where |= {"max_seconds": task.max_seconds, "until_epoch": task.until_epoch}
        where |= {"verbosity": -1, "extra_loggers": [log]}
        run = TrainingRun(task.loaded, task.loaded.kernel, **where)
        self._run = run.__enter__()
        earlier = tuple(RunReport(**line) for line in log.go_on_from(run.epoch))
        return attrs.evolve(self._report(), earlier=earlier)

    def advance(self) -> RunReport:
        """Train up to the next evaluation, or to the end of the run, if that comes first; one epoch without any.

        Raises:
            MazeError: training failed, and the run is left.
        """
        run = self._running()
        try:
            while run.advance() is None:
                if run.record is not None and (run.record.evaluation or self._every_epoch):
                    break
        except BaseException as error:
            self._run = None
            run.__exit__(type(error), error, error.__traceback__)
            raise
        return self._report()

    def stop(self, status: str, reason: str) -> RunReport | None:
        """Save and leave the run, which can go on later; None where there is none."""
        if self._run is None:
            return None
        self._run.stop(status, reason)
        return self._report()

    def close(self) -> None:
        """Save and leave the run, because the worker ends."""
        self.stop("interrupted", "its worker was told to end")

    def _running(self) -> TrainingRun:
        if self._run is None:
            raise WorkerError("there is no run to advance", help="begin one first")
        return self._run

    def _report(self) -> RunReport:
        """What is over is closed here, so that its files are whole when the caller hears of it."""
        run = self._running()
        if run.outcome is not None:
            self._run = None
            run.__exit__(None, None, None)
        record = run.record or EpochRecord(epoch=run.epoch, env_steps=run.env_steps, wall_seconds=0.0, train={})
        return RunReport(
            epoch=run.epoch,
            env_steps=run.env_steps,
            wall_seconds=record.wall_seconds,
            train=numbers_of(record.train),
            evaluation=numbers_of(record.evaluation),
            outcome=run.outcome,
            metric=run.metric,
        )
