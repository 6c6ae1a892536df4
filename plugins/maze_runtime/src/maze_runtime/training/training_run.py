"""One run, from its directory to its outcome: everything is built, trained epoch by epoch, and closed again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

import attrs

from maze_kernel.contracts.logger import EpochRecord, Logger, LoggerContext, Outcome, Progress
from maze_kernel.errors import MazeError, NonFiniteError
from maze_kernel.selection import read_option
from maze_runtime.env.tracebacks import see_alone, traceback_of
from maze_runtime.models.graph_building import named_graphs
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.before_training import check_before_training
from maze_runtime.run.directory import note_metric, note_resumption
from maze_runtime.run.fan_out import FanOut
from maze_runtime.run.log_notes import LogNotes
from maze_runtime.run.metric_text import MEAN_REWARD
from maze_runtime.run.placing import in_use
from maze_runtime.run.pools import KnowsLastingPlaces
from maze_runtime.run.used_parts import place_error
from maze_runtime.run.warning_notes import WarningNotes
from maze_runtime.training.budget import Budget
from maze_runtime.training.callbacks import CallbackContext, Callbacks, named_callbacks
from maze_runtime.training.checkpoint import Checkpoint, LoopState
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.evaluation import Evaluators
from maze_runtime.training.initialization import Initialization
from maze_runtime.training.interruption import Interruption
from maze_runtime.training.loop import Loop
from maze_runtime.training.metric import Metric
from maze_runtime.training.resume import restore
from maze_runtime.training.run_directory import run_directory
from maze_runtime.training.run_files import save_normalization, write_batch

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.trainer import Trainer
    from maze_kernel.contracts.workers import WorkerPool
    from maze_kernel.loader import Kernel


class RunOptions(TypedDict, total=False):
    """The options of `TrainingRun`."""

    run_dir: Path | None
    resume: Path | None
    overwrite: bool
    max_seconds: float | None
    until_epoch: int | None
    renews_patience: bool
    verbosity: int
    extra_loggers: Sequence[Logger]
    callbacks: Sequence[Any]
    on_run_dir: Callable[[Path], None]


class TrainingRun:
    """A run that is trained one epoch at a time; a context manager, within which `advance` may be called.

    What is raised within it is written down, and loggers, trainer and workers are closed in any case. A new directory
    is removed again where not everything could be built.

        with TrainingRun(loaded, kernel) as run:
            while run.advance() is None:
                print(run.record.epoch)

    Args:
        loaded: the experiment; of a resumed run, what `maze_runtime.training.resume.stored_experiment` gives.
        run_dir: a new directory; None: `runs/<name>/<UTC time>-<4 hex>/`.
        resume: the run directory to continue, in place of `run_dir`.
        overwrite: replace the run in `run_dir`, if there is one.
        max_seconds: wall-clock budget of this and of what it resumes together.
        until_epoch: the last epoch to train now, in place of the trainer's `n_epochs`, over which schedules run
            and which the directory stores; None: as the trainer says.
        renews_patience: a run that had no patience left goes on, and counts anew.
        verbosity: −1 silent, 0 normal, 1 tables of statistics.
        extra_loggers: besides those of the experiment.
        callbacks: besides those of the experiment: names, tables, functions of a `RunInProgress`, or instances of
            `Callback`.
        on_run_dir: called with the run directory before anything else is built.

    Attributes:
        interruption: catches signals where the caller enters it.
        outcome: None until training is over.
    """

    def __init__(
        self,
        loaded: LoadedExperiment,
        kernel: Kernel,
        *,
        run_dir: Path | None = None,
        resume: Path | None = None,
        overwrite: bool = False,
        max_seconds: float | None = None,
        until_epoch: int | None = None,
        renews_patience: bool = False,
        verbosity: int = 0,
        extra_loggers: Sequence[Logger] = (),
        callbacks: Sequence[Any] = (),
        on_run_dir: Callable[[Path], None] = lambda _path: None,
    ) -> None:
        check_before_training(loaded.experiment, kernel.catalog)
        self._assembly = Assembly(loaded, kernel)
        _check_place(self._assembly, run_dir or resume or Path("runs"))
        self._stack = ExitStack()
        directory = run_directory(self._assembly, run_dir, resume, overwrite)
        self._stack.callback(directory.lock.release)
        self._assembly.run_dir = self.path = directory.path
        self._checkpoint, self._notes, self._resumption = directory.checkpoint, directory.notes, directory.resumption
        self._is_new = resume is None
        self._is_below_runs = resume is None and run_dir is None
        self._max_seconds = max_seconds
        self._until_epoch = until_epoch
        self._renews_patience = renews_patience
        self._given_callbacks = tuple(callbacks)
        self._on_run_dir = on_run_dir
        self._verbosity = verbosity
        self._loggers = FanOut(extra_loggers, self.path / "log.txt")
        self._warnings = WarningNotes(self._loggers.warning, self._loggers.note_warning)
        self.interruption = Interruption(silent=verbosity < 0)
        self.outcome: Outcome | None = None

    def __enter__(self) -> TrainingRun:
        self._stack.enter_context(LogNotes(self._loggers.note))
        self._stack.enter_context(self._warnings)
        try:
            self._on_run_dir(self.path)
            self._loop = self._prepare(self._checkpoint)
            self._checkpoint = None
            self.outcome = self._loop.begin(renews_patience=self._renews_patience)
        except BaseException as error:
            with self._stack:
                self._fail(error)
            if self._is_new:
                shutil.rmtree(self.path, ignore_errors=True)
            if self._is_below_runs:
                with suppress(OSError):  # where other runs of this name are
                    self.path.parent.rmdir()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if error is not None:
                self._fail(error)
            else:
                self._end(self.outcome or self.stop("interrupted", "it was left"))

    @property
    def record(self) -> EpochRecord | None:
        """Statistics of the last epoch; None before the first one here."""
        return self._loop.record

    @property
    def metric(self) -> Metric:
        """What selects the best model: as the experiment says, else as the trainer does."""
        return self._loop.metric

    @property
    def env_steps(self) -> int:
        """Of the whole run, resumed parts included."""
        return self._loop.trainer.env_steps

    @property
    def epoch(self) -> int:
        """The last epoch that was trained, resumed parts included; 0 before the first one."""
        return self._loop.state.epoch

    @property
    def model(self) -> Any:
        """With the weights as they are now."""
        return self._loop.trainer.model

    def advance(self) -> Outcome | None:
        """Train one epoch, evaluation and checkpoint included; the outcome where training is over.

        Raises:
            MazeError: training failed; what was saved is whole.
        """
        if self.outcome is None:
            if self.record is None:
                note_metric(self.path, self.metric.text)
            self.outcome = self._loop.advance(self.interruption)
        return self.outcome

    def stop(self, status: str, reason: str) -> Outcome:
        """Save and end the run; nothing changes where it is over."""
        if self.outcome is None:
            self.outcome = self._loop.stop(status, reason)
        return self.outcome

    def _prepare(self, checkpoint: Checkpoint | None) -> Loop:
        assembly = self._assembly
        source = assembly.experiment.initialize_from if checkpoint is None else None
        initialization = Initialization(source, assembly) if source else None
        trainer = self._make_trainer(initialization)
        self._add_loggers(trainer, checkpoint.epoch if checkpoint else 0)
        for note in assembly.training_batches.notes():
            self._loggers.message(note)
        store = CheckpointStore(self.path, keep=assembly.experiment.checkpoint.keep)
        state = self._restored(checkpoint, trainer, store)
        for line in initialization.finish(trainer.model) if initialization else ():
            self._loggers.message(line)
        if checkpoint is None:
            if chosen := assembly.notes_of_defaults():
                self._loggers.message(f"{', '.join(chosen)} (wrappers = [] switches it off)")
            self._hand_over_networks(trainer.model)
        assembly.estimate_transforms(
            self._loggers.message,
            lambda fraction: self._loggers.progress(Progress(env_steps=0, fraction=fraction, phase="estimate")),
        )
        loop = Loop(
            assembly=assembly,
            trainer=trainer,
            evaluators=self._evaluators(self._pool()),
            store=store,
            loggers=self._loggers,
            budget=Budget.of(partial(read_option, trainer.options), self._max_seconds, self._until_epoch),
            state=state,
        )
        self._loggers.message(f"trainer {assembly.experiment.trainer.use}: {loop.budget.described()}")
        if of_schedules := loop.budget.note_of_schedules(trainer.options):
            self._loggers.message(of_schedules)
        loop.callbacks = self._callbacks(loop.metric)
        if checkpoint is not None:
            loop.restore_callbacks(checkpoint.callbacks)
        return loop

    def _make_trainer(self, initialization: Initialization | None) -> Trainer:
        context = self._assembly.trainer_context(self._progress)
        trainer = self._assembly.make_trainer(initialization.context(context) if initialization else context)
        self._stack.callback(self._close_trainer, trainer)
        return trainer

    def _close_trainer(self, trainer: Trainer) -> None:
        with in_use(self._assembly.experiment.trainer, "close"):
            trainer.close()

    def _restored(self, checkpoint: Checkpoint | None, trainer: Trainer, store: CheckpointStore) -> LoopState:
        """The loop's counters, of a new run zero; what it goes on from is made whole, and noted."""
        state = LoopState()
        if checkpoint is not None:
            state = restore(checkpoint, trainer, self._assembly)
            # What a crash kept from being written with the checkpoint.
            store.go_on_from(state.epoch, state.best_epoch)
            save_normalization(store, self._assembly)
        else:
            store.drop_after(0)
        if self._resumption is not None:
            note_resumption(self.path, self._assembly.loaded.resolved, self._resumption)
        return state

    def _add_loggers(self, trainer: Trainer, epoch: int) -> None:
        """Those of the experiment, which are told what selects the best model: only the trainer knows."""
        budget = Budget.of(self._assembly.experiment.trainer.option, until_epoch=self._until_epoch)
        context = _logger_context(self._assembly, self.path, epoch, self._verbosity, trainer, budget)
        self._loggers.add(*self._assembly.make_loggers(context))
        for note in self._notes:
            self._loggers.message(note)

    def _callbacks(self, metric: Metric) -> Callbacks:
        assembly, experiment = self._assembly, self._assembly.experiment
        context = CallbackContext(run_dir=self.path, name=experiment.name, metric=metric.tag, minimize=metric.minimize)
        return Callbacks(named_callbacks(assembly.kernel, context, experiment.callbacks, self._given_callbacks))

    def _progress(self, progress: Progress) -> bool:
        """What trainers call between updates; whether the epoch should end with the running one."""
        reward = self._assembly.training_batches.mean_raw_reward(progress.reward)
        self._loggers.progress(attrs.evolve(progress, reward=reward))
        self.interruption.check()
        return self._loop.is_out_of_time

    def _fail(self, error: BaseException) -> None:
        """Write what helps to understand a failure, then close the loggers."""
        if isinstance(error, NonFiniteError):
            batch = write_batch(self.path, error)
            if batch is not None:
                error.help = f"{error.help}; " if error.help else ""
                error.help += f"the batch is in {batch}"
        if isinstance(error, MazeError):
            place_error(error, self._assembly)
            see_alone(error, self._assembly.loaded.path, self._assembly.loaded.overrides)
        if not isinstance(error, KeyboardInterrupt) and (text := traceback_of(error)):
            self._loggers.note(f"what failed:\n{text.rstrip()}")
        what = error.what if isinstance(error, MazeError) else f"{type(error).__name__}: {error}"
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        self._end(Outcome(status=status, reason=what))

    def _end(self, outcome: Outcome) -> None:
        """Write down how the run ended, behind all else that it has to say."""
        self._warnings.close()
        self._loggers.note(f"{outcome.status}: {outcome.reason}")
        self._loggers.close(outcome)

    def _hand_over_networks(self, model: Any) -> None:
        """A model that cannot say what it is made of is trained all the same; its `notes` are written down."""
        for note in getattr(model, "notes", ()):
            self._loggers.message(note)
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

    def _evaluators(self, pool: WorkerPool | None) -> Evaluators:
        evaluators = Evaluators(self._assembly, pool)
        self._stack.callback(evaluators.close)
        return evaluators


def _check_place(assembly: Assembly, path: Path) -> None:
    """Let the worker pool refuse a place where a run would be lost."""
    with assembly.make_workers() as pool:
        if isinstance(pool, KnowsLastingPlaces):
            pool.check_run_directory(path)


def _logger_context(
    assembly: Assembly, path: Path, epoch: int, verbosity: int, trainer: Trainer, budget: Budget
) -> LoggerContext:
    experiment = assembly.experiment
    metric = Metric.of_experiment(experiment, getattr(trainer, "metric", MEAN_REWARD))
    return LoggerContext(
        run_dir=path,
        name=experiment.name,
        n_epochs=budget.n_epochs,
        max_env_steps=budget.max_env_steps,
        resumed_epoch=epoch,
        metric=metric.found_as(experiment, is_shaped=assembly.training_batches.shapes_reward),
        verbosity=verbosity,
    )
