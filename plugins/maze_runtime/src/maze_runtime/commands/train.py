"""`maze train`: a new run from an experiment file, or an old one continued."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_kernel.cli.experiments import Overrides
from maze_kernel.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EnvError,
    MazeError,
    MazeWarning,
    RequestError,
    WorkerError,
)
from maze_kernel.shown_command import shown_command
from maze_runtime.commands.runs import newest_run
from maze_runtime.commands.sources import experiment_of
from maze_runtime.run.metric_text import MEAN_REWARD
from maze_runtime.training.interruption import ignore_ctrl_c

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.logger import Outcome
    from maze_runtime.training.train import TrainingResult


def train(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE|ENV]",
            help="An experiment file, or an environment's name or id; may be left out with --resume.",
        ),
    ] = None,
    overrides: Overrides = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Continue this run directory.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run directory; else runs/NAME/TIME.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in --out.")] = False,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="Train once with each seed: 0,1,2 or 0-9.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, help="Runs at a time, with --seeds; else one a processor.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", help="Stop after this wall-clock time; 0: no limit.")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show all statistics of each epoch.")] = False,
) -> int:
    """Train an experiment, or continue a run; with --seeds several runs, which --resume continues together."""
    if max_seconds is not None and not 0.0 <= max_seconds < math.inf:
        raise RequestError(f"--max-seconds {max_seconds:g} is no time", expected="seconds, or 0 for no limit")
    if seeds is not None or (resume is not None and (resume / "series.json").is_file()):
        from maze_runtime.commands.series import train_seeds

        return train_seeds(
            file,
            tuple(overrides or ()),
            seeds,
            resume,
            out,
            overwrite=overwrite,
            parallel=parallel,
            max_seconds=max_seconds,
        )
    if parallel is not None:
        raise RequestError("--parallel is for several runs", help="name their seeds with --seeds 0,1,2")
    from maze_runtime.training.train import train as run_training

    loaded = _experiment_to_train(file, tuple(overrides or ()), resume)
    resumed = None if resume is None else newest_run(resume)
    commands = _NextCommands(file, tuple(overrides or ()), out or resumed)
    try:
        result = run_training(
            loaded,
            loaded.kernel,
            run_dir=out,
            resume=resumed,
            overwrite=overwrite,
            max_seconds=max_seconds,
            verbosity=int(verbose),
            on_run_dir=commands.announce,
        )
        if result.outcome.status == "interrupted":
            ignore_ctrl_c()
    except KeyboardInterrupt:
        ignore_ctrl_c()
        print(f"interrupted; {commands.go_on() or 'nothing was saved yet'}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (EnvError, WorkerError) as error:
        commands.add_to(error)
        raise
    return _tell(result, commands)


def _tell(result: TrainingResult, commands: _NextCommands) -> int:
    """What came of it, on standard output; returns the exit code."""
    status = result.outcome.status
    if status == "interrupted":
        print(f"interrupted after epoch {result.epochs}; go on with: {commands.resume(result.run_dir)}")
        return EXIT_INTERRUPTED
    steps = f" and {result.env_steps} environment steps" if result.env_steps else ""
    print(f"{status} after epoch {result.epochs}{steps}{_best(result.outcome)}")
    if result.epochs:
        print(f"roll it out with: {commands.roll_out(result.run_dir)}")
    else:
        print(f"nothing was trained; go on with: {commands.resume(result.run_dir)}")
    return EXIT_FAILED if status == "failed" else EXIT_DONE


def _best(outcome: Outcome) -> str:
    """The best value and what it is a value of: of evaluations or, in a run without any, of training episodes."""
    if outcome.best_metric is None:
        return ""
    what = "mean reward" if outcome.metric == MEAN_REWARD else outcome.metric
    return f", best {what} {outcome.best_metric:.6g}"


def _experiment_to_train(file: Path | None, overrides: tuple[str, ...], resume: Path | None) -> LoadedExperiment:
    from maze_runtime.training.resume import stored_experiment

    if file is not None:
        return experiment_of(file, overrides, needs_trainer=True)
    if resume is None:
        raise RequestError("there is nothing to train", help="give an experiment file, or --resume RUN")
    return stored_experiment(newest_run(resume), overrides=overrides)


class _NextCommands:
    """What to type next, once a run has ended, failed or been interrupted; for the directory that the command began in.

    Args:
        file: the experiment file, environment's name or id that was given.
        overrides: those that it had.
        place: the run directory that was given, if one was.
    """

    def __init__(self, file: Path | None, overrides: tuple[str, ...], place: Path | None) -> None:
        self._file = file
        self._is_file = file is not None and file.is_file()
        self._overrides = overrides
        self._place = place
        self._began_in = Path().absolute()
        self._run: Path | None = None

    def announce(self, run: Path) -> None:
        """Take note of the run directory, and name it on standard error."""
        self._run = run
        print(f"run directory: {self._shown(run)}", file=sys.stderr)
        if self._file is not None and not self._is_file:
            print(f"experiment: {self._shown(run) / 'experiment.toml'}", file=sys.stderr)

    def roll_out(self, run: Path) -> str:
        """Plays episodes of a run."""
        return shown_command("maze", "rollout", self._shown(run), *self._experiment_option(run))

    def resume(self, run: Path) -> str:
        """Goes on from the last checkpoint of a run; a file is read again with the overrides that it had."""
        shown = self._shown(run)
        if not self._experiment_option(run):
            return shown_command("maze", "train", "--resume", shown)
        if self._file is not None and not self._is_file:
            # the experiment of the run holds the overrides
            return shown_command("maze", "train", shown / "experiment.toml", "--resume", shown)
        return shown_command("maze", "train", self._file, "--resume", shown, settings=self._overrides)

    def go_on(self) -> str:
        """From which epoch the announced run goes on, and how; empty where it has no checkpoint."""
        from maze_runtime.training.checkpoint_store import CheckpointStore

        if self._run is None:
            return ""
        epochs = CheckpointStore(self._run).epochs()
        return f"go on from epoch {epochs[-1]} with: {self.resume(self._run)}" if epochs else ""

    def add_to(self, error: MazeError) -> None:
        """Let the error of a run that failed say how to go on."""
        how = self.go_on()
        if how:
            error.help = f"{error.help}; {how}" if error.help else how

    def _experiment_option(self, run: Path) -> tuple[str, Path] | tuple[()]:
        """`--experiment FILE` where the run imports code by path, which only the user's own file may ask for."""
        from maze_runtime.training.resume import stored_experiment

        try:
            with warnings.catch_warnings(action="ignore", category=MazeWarning):  # said when training began
                stored_experiment(run)
        except RequestError:
            return "--experiment", self._file if self._is_file else self._shown(run) / "experiment.toml"  # type: ignore[return-value]
        return ()

    def _shown(self, run: Path) -> Path:
        """A run directory as it was given, or from where the command began."""
        if self._place is not None:
            return self._place
        return run.relative_to(self._began_in) if run.is_relative_to(self._began_in) else run
