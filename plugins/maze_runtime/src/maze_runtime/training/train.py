"""From an experiment, or a run to resume, to a trained run directory: what `maze train` and `RunContext.train` call."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.contracts.logger import Logger, LoggerContext, Outcome, Progress
from maze_kernel.errors import MazeError, NonFiniteError, RequestError
from maze_kernel.selection import read_option
from maze_runtime.env.tracebacks import see_alone, traceback_of
from maze_runtime.models.graph_building import named_graphs
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.directory import (
    Resumption,
    clean_run_directory,
    create_run_directory,
    is_unused,
    note_resumption,
    open_run,
    write_experiment,
)
from maze_runtime.run.fan_out import FanOut
from maze_runtime.run.loud_exit import loud_exit
from maze_runtime.run.pools import KnowsLastingPlaces
from maze_runtime.training.budget import Budget
from maze_runtime.training.checkpoint import Checkpoint, LoopState
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.evaluation import MEAN_REWARD, Evaluator
from maze_runtime.training.initialization import initialize_from, open_source
from maze_runtime.training.interruption import Interruption
from maze_runtime.training.loop import Loop
from maze_runtime.training.resume import check_compatible, restore
from maze_runtime.training.run_files import save_normalization, write_batch

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.trainer import Trainer
    from maze_kernel.contracts.workers import WorkerPool
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
def train(
    loaded: LoadedExperiment,
    kernel: Kernel,
    *,
    run_dir: Path | None = None,
    resume: Path | None = None,
    overwrite: bool = False,
    max_seconds: float | None = None,
    verbosity: int = 0,
    extra_loggers: Sequence[Logger] = (),
    on_run_dir: Callable[[Path], None] = lambda _path: None,
) -> TrainingResult:
    """Train one experiment to the end of its budget.

    Args:
        loaded: the experiment; of a resumed run, what `maze_runtime.training.resume.stored_experiment` gives.
        run_dir: a new directory; None: `runs/<name>/<UTC time>-<4 hex>/`.
        resume: the run directory to continue, in place of `run_dir`.
        overwrite: replace the run in `run_dir`, if there is one.
        max_seconds: wall-clock budget of this call and what it resumes together.
        verbosity: −1 silent, 0 normal, 1 tables of statistics.
        extra_loggers: besides those of the experiment.
        on_run_dir: called with the run directory before training starts.

    Raises:
        MazeError: training failed; loggers and workers are closed and what was saved is whole. A new directory is
            removed again where training did not begin.
    """
    with ExitStack() as stack:
        assembly = Assembly(loaded, kernel)
        _check_place(assembly, run_dir or resume or Path("runs"))
        path, checkpoint, notes = _directory(assembly, run_dir, resume, overwrite)
        assembly.run_dir = path
        on_run_dir(path)
        epoch = checkpoint.epoch if checkpoint else 0
        loggers = FanOut(
            [*assembly.make_loggers(_logger_context(assembly, path, epoch, verbosity)), *extra_loggers],
            path / "log.txt",
        )
        interruption = Interruption(silent=verbosity < 0)
        run = _Run(assembly, path, loggers, stack, interruption)
        try:
            for note in notes:
                loggers.message(note)
            loop = run.prepare(checkpoint, max_seconds)
            run.has_begun = True
            with interruption:
                outcome = loop.run(interruption)
        except BaseException as error:
            run.fail(error)
            if resume is None and not run.has_begun:
                shutil.rmtree(path, ignore_errors=True)
            raise
        run.finish(outcome)
        return TrainingResult(
            run_dir=path,
            outcome=outcome,
            best_metric=outcome.best_metric,
            env_steps=loop.trainer.env_steps,
            epochs=loop.state.epoch,
            model=loop.trainer.model,
        )


class _Run:
    """Builds the parts of a run in order and sees to it that each is closed.

    Attributes:
        has_begun: whether all parts are built and training goes on from there.
    """

    def __init__(
        self, assembly: Assembly, path: Path, loggers: FanOut, stack: ExitStack, interruption: Interruption
    ) -> None:
        self._assembly = assembly
        self._path = path
        self._loggers = loggers
        self._stack = stack
        self._interruption = interruption
        self.has_begun = False

    def prepare(self, checkpoint: Checkpoint | None, max_seconds: float | None) -> Loop:
        assembly = self._assembly
        trainer: Trainer = assembly.make_trainer(assembly.trainer_context(self._progress))
        self._stack.callback(trainer.close)
        store = CheckpointStore(self._path, keep=assembly.experiment.checkpoint.keep)
        state = LoopState()
        if checkpoint is not None:
            state = restore(checkpoint, trainer, assembly)
            # What a crash kept from being written with the checkpoint.
            store.go_on_from(state.epoch, state.best_epoch)
            save_normalization(store, assembly)
        else:
            store.drop_after(0)
        if checkpoint is None and assembly.experiment.initialize_from:
            for line in initialize_from(assembly.experiment.initialize_from, trainer, assembly):
                self._loggers.message(line)
        if checkpoint is None:
            self._hand_over_networks(trainer.model)
        assembly.estimate_transforms(
            self._loggers.message,
            lambda fraction: self._loggers.progress(Progress(env_steps=0, fraction=fraction, phase="estimate")),
        )
        return Loop(
            assembly=assembly,
            trainer=trainer,
            evaluator=self._evaluator(self._pool()),
            store=store,
            loggers=self._loggers,
            budget=Budget.of(partial(read_option, trainer.options), max_seconds),
            state=state,
        )

    def _progress(self, progress: Progress) -> None:
        """What trainers call between updates."""
        self._loggers.progress(progress)
        self._interruption.check()

    def fail(self, error: BaseException) -> None:
        """Write what helps to understand a failure, then close the loggers."""
        if isinstance(error, NonFiniteError):
            batch = write_batch(self._path, error)
            if batch is not None:
                error.help = f"{error.help}; " if error.help else ""
                error.help += f"the batch is in {batch}"
        if isinstance(error, MazeError):
            see_alone(error, self._assembly.loaded.path, self._assembly.loaded.overrides)
        if not isinstance(error, KeyboardInterrupt) and (text := traceback_of(error)):
            self._loggers.note(f"what failed:\n{text.rstrip()}")
        what = error.what if isinstance(error, MazeError) else f"{type(error).__name__}: {error}"
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        self._loggers.note(f"{status}: {what}")
        self._loggers.close(Outcome(status=status, reason=what))

    def finish(self, outcome: Outcome) -> None:
        self._loggers.note(f"{outcome.status}: {outcome.reason}")
        self._loggers.close(outcome)

    def _hand_over_networks(self, model: Any) -> None:
        """A model that cannot say what it is made of is trained all the same."""
        try:
            graphs = named_graphs(model)
        except Exception as error:
            self._loggers.message(f"the networks could not be described: {type(error).__name__}: {error}")
            return
        if graphs:
            self._loggers.networks(graphs)

    def _pool(self) -> WorkerPool | None:
        """Workers for evaluation and estimates; None where everything runs in this process."""
        if self._assembly.experiment.workers is None:
            return None
        pool = self._assembly.make_workers()
        self._stack.callback(pool.close)
        return pool if pool.is_parallel else None

    def _evaluator(self, pool: WorkerPool | None) -> Evaluator | None:
        if self._assembly.experiment.evaluation.n_episodes == 0:
            return None
        evaluator = Evaluator(self._assembly, pool)
        self._stack.callback(evaluator.close)
        return evaluator


def _check_place(assembly: Assembly, path: Path) -> None:
    """Let the worker pool refuse a place where a run would be lost."""
    with assembly.make_workers() as pool:
        if isinstance(pool, KnowsLastingPlaces):
            pool.check_run_directory(path)


def _directory(
    assembly: Assembly, run_dir: Path | None, resume: Path | None, overwrite: bool
) -> tuple[Path, Checkpoint | None, list[str]]:
    if resume is None:
        return _new_directory(assembly, run_dir, overwrite), None, []
    if run_dir is not None or overwrite:
        received = "--overwrite" if overwrite else f"--out {run_dir}"
        raise RequestError("a resumed run stays in its directory", received=received, help="leave it away")
    if is_unused(resume):
        path = _new_directory(assembly, resume, overwrite=False)
        return path, None, ["the run was stopped before it began: training starts at the beginning"]
    stored = open_run(resume)
    check_compatible(stored.resolved, assembly.loaded.resolved)
    clean_run_directory(stored.path)
    store = CheckpointStore(stored.path)
    store.clean()
    write_experiment(stored.path, assembly.loaded)
    checkpoint, notes = store.load_newest()
    if checkpoint is None:
        has = "no whole checkpoint" if notes else "no checkpoint yet"
        notes = [*notes, f"the run has {has}: training starts at the beginning"]
    else:
        notes = [*notes, f"resumed from epoch {checkpoint.epoch}"]
    resumption = Resumption(epoch=checkpoint.epoch if checkpoint else 0, overrides=assembly.loaded.overrides)
    note_resumption(stored.path, assembly.loaded.resolved, resumption)
    return stored.path, checkpoint, notes


def _new_directory(assembly: Assembly, run_dir: Path | None, overwrite: bool) -> Path:
    """What does not fit is refused before anything is created or replaced."""
    source = assembly.experiment.initialize_from
    if source:
        open_source(source)
    if overwrite and run_dir is None:
        raise RequestError("--overwrite names no run", help="name the directory to replace with --out")
    if overwrite and source and Path(source).resolve().is_relative_to(run_dir.resolve()):  # type: ignore[union-attr]
        raise RequestError(
            "a run cannot replace the one that it is initialised from",
            received=f"initialize_from = {source!r} and --out {run_dir} --overwrite",
            help="give --out another directory",
        )
    _ = assembly.spaces
    return create_run_directory(assembly.loaded, assembly.kernel, out=run_dir, overwrite=overwrite)


def _logger_context(assembly: Assembly, path: Path, epoch: int, verbosity: int) -> LoggerContext:
    experiment = assembly.experiment
    budget = Budget.of(experiment.trainer.option)
    return LoggerContext(
        run_dir=path,
        name=experiment.name,
        n_epochs=budget.n_epochs,
        max_env_steps=budget.max_env_steps,
        resumed_epoch=epoch,
        metric=experiment.evaluation.metric or MEAN_REWARD,
        verbosity=verbosity,
    )
