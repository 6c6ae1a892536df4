"""From an experiment, or a run to resume, to a trained run directory: what `maze train` and `RunContext.train` call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from maze_runtime.run.loud_exit import loud_exit
from maze_runtime.training.interruption import any_signal_interrupts
from maze_runtime.training.one_thread import trains_alone
from maze_runtime.training.training_run import RunOptions, TrainingRun

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.logger import Outcome
    from maze_kernel.loader import Kernel


@attrs.frozen(kw_only=True)
class TrainingResult:
    """How a training run ended.

    Attributes:
        epochs: of the whole run, resumed parts included.
        model: with the last weights.
    """

    run_dir: Path
    outcome: Outcome
    best_metric: float | None
    env_steps: int
    epochs: int
    model: Any = attrs.field(default=None, repr=False, eq=False)


@loud_exit()
def train(loaded: LoadedExperiment, kernel: Kernel, **options: Unpack[RunOptions]) -> TrainingResult:
    """Train one experiment to the end of its budget, or until a signal arrives.

    Args:
        loaded: the experiment; of a resumed run, what `maze_runtime.training.resume.stored_experiment` gives.
        options: those of `TrainingRun`.

    Raises:
        RequestError: another thread of this process trains.
        MazeError: training failed; loggers and workers are closed and what was saved is whole. A new directory is
            removed again where training did not begin.
        KeyboardInterrupt: a signal came before training began, or a second one later.
    """
    with trains_alone(), any_signal_interrupts(), TrainingRun(loaded, kernel, **options) as run:
        with run.interruption:
            outcome = run.advance()
            while outcome is None:
                outcome = run.advance()
        return TrainingResult(
            run_dir=run.path,
            outcome=outcome,
            best_metric=outcome.best_metric,
            env_steps=run.env_steps,
            epochs=run.epoch,
            model=run.model,
        )
