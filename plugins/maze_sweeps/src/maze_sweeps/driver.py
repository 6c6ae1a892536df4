"""Trains the trials of a sweep: proposes the next one whenever a worker is free, hears of evaluations, and decides.

Whatever is decided is written into the trial's folder before anybody else is told, so that a sweep whose process was
killed goes on with nothing lost and nothing trained twice.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from maze_kernel.errors import ExperimentError, MazeError, NonFiniteError, RequestError
from maze_runtime.series.run_actor import RunTask
from maze_runtime.series.series import with_seed
from maze_runtime.training.interruption import Interruption
from maze_sweeps.disk import cannot_be_written, is_about_full_disk, writing
from maze_sweeps.folder import write_best
from maze_sweeps.measuring import is_about_metric, no_such_metric, value_of
from maze_sweeps.ranking import best_first, best_trial
from maze_sweeps.sweep_reading import STORED_EXPERIMENT
from maze_sweeps.tables import write_table
from maze_sweeps.trials import RunKey, SeedRun, SweepTrial, new_trial, objective, write_trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from maze_kernel.config.experiment import LoadedExperiment
    from maze_runtime.series.parallel_runs import ParallelRuns, RunEvent
    from maze_runtime.series.run_actor import RunReport
    from maze_sweeps.contract import Searcher
    from maze_sweeps.progress import SweepProgress
    from maze_sweeps.sweep_reading import LoadedSweep

_LOOK_SECONDS = 0.5


class SweepDriver:
    """Runs one sweep in its folder, which it has for itself.

    Args:
        n_trials: how many are wanted; 0: as many as the searcher has.
        trials: those there are already; the searcher was told of them.
    """

    def __init__(
        self,
        sweep: LoadedSweep,
        folder: Path,
        searcher: Searcher,
        runs: ParallelRuns,
        *,
        n_trials: int,
        trials: Sequence[SweepTrial],
        progress: SweepProgress,
    ) -> None:
        self._sweep = sweep
        self._folder = folder.resolve()
        self._searcher = searcher
        self._runs = runs
        self._n_trials = n_trials
        self._progress = progress
        self.trials = {trial.number: trial for trial in trials}
        # Without the last report of each: the process may have ended before the searcher had answered.
        self._told = {trial.number: max((step for step, _ in trial.watched.curve[:-1]), default=-1) for trial in trials}
        self._queue: deque[RunKey] = deque()
        self._beginning: set[RunKey] = set()
        self._loaded: dict[int, LoadedExperiment] = {}
        self._interruption = Interruption(silent=progress.is_silent)
        self._interruption.finishing = "the epochs that run"

    def train(self) -> str | None:
        """Search, then confirm; the name of the signal that ended it early, else None.

        Raises:
            RequestError: the metric is none that the runs report.
            MazeError: a file could not be written; the sweep can go on.
        """
        with self._interruption:
            for trial in self.trials.values():
                if trial.state == "running":
                    self._go_on_after(trial)
            self._work(searching=True)
            if self._sweep.file.confirm is not None and self._interruption.received is None:
                self._begin_confirmation(self._sweep.file.confirm.top)
                self._work(searching=False)
        self._write_summary()
        return self._interruption.received

    def _work(self, *, searching: bool) -> None:
        """Until nothing is left to start and nothing runs."""
        while True:
            while self._runs.n_free and self._interruption.received is None:
                if not self._queue and not (searching and self._propose()):
                    break
                self._start(self._queue.popleft())
            if not self._runs.running:
                return
            for event in self._runs.wait(_LOOK_SECONDS):
                self._see(event)
            self._progress.show(self.trials)

    def _propose(self) -> bool:
        """Queue a new trial; False where there is none."""
        while True:
            number = next(number for number in count() if number not in self.trials)
            if self._n_trials and number >= self._n_trials:
                return False
            try:
                draw = self._searcher.propose(number)
            except RequestError as error:
                raise self._sweep.locate(error) from error
            if draw is None:
                return False
            trial = new_trial(number, draw, self._sweep.space.space, self._sweep.file.search_seeds)
            self.trials[number] = trial
            try:
                self._experiment(trial)
            except ExperimentError as error:
                self._end(trial, "failed", reason=error.problems[0].what)
                continue
            self._queue_seeds(trial)
            write_trial(self._folder, trial)
            return True

    def _experiment(self, trial: SweepTrial) -> LoadedExperiment:
        if trial.number not in self._loaded:
            file = self._folder / STORED_EXPERIMENT if self._sweep.base.text else None
            self._loaded[trial.number] = self._sweep.base.trial(trial.settings, file)
        return self._loaded[trial.number]

    def _queue_seeds(self, trial: SweepTrial) -> None:
        """The watched seed first, the others when it has ended."""
        runs = list(trial.seeds.values()) if trial.watched.is_over else [trial.watched]
        self._queue.extendleft(RunKey(trial.number, run.seed) for run in reversed(runs) if not run.is_over)

    def _begin_confirmation(self, top: int) -> None:
        for trial in best_first(self.trials.values(), self._sweep.metric.minimize)[:top]:
            for seed in self._sweep.file.confirm_seeds:
                run = trial.confirm.setdefault(seed, SeedRun(seed=seed))
                if not run.is_over:
                    self._queue.append(RunKey(trial.number, seed, confirms=True))
            write_trial(self._folder, trial)

    def _start(self, key: RunKey) -> None:
        trial = self.trials[key.number]
        kind = "confirm" if key.confirms else "trials"
        path = self._folder / kind / trial.folder_name / f"seed-{key.seed}"
        task = RunTask(loaded=with_seed(self._experiment(trial), key.seed), run_dir=path)
        self._run(key).state = "running"
        write_trial(self._folder, trial)
        self._beginning.add(key)
        self._progress.begin(key, task.loaded)
        self._runs.start(key, task)

    def _run(self, key: RunKey) -> SeedRun:
        trial = self.trials[key.number]
        return (trial.confirm if key.confirms else trial.seeds)[key.seed]

    def _see(self, event: RunEvent) -> None:
        key: RunKey = event.key  # type: ignore[assignment]
        trial, run = self.trials[key.number], self._run(key)
        begins = key in self._beginning
        self._beginning.discard(key)
        if event.is_last:
            self._progress.end(key, event.report)
        if not key.confirms and trial.state != "running":  # another seed of the trial has decided
            if not event.is_last:
                self._runs.stop(key, "stopped early", f"its trial is {trial.state}")
        elif event.error is not None:
            self._failed(key, event.error)
        elif event.report is not None:
            self._hear(run, event.report, begins)
            self._progress.report(key, event.report, run)
            self._go_on(key, event.report)

    def _go_on(self, key: RunKey, report: RunReport) -> None:
        """Decide what a run does after a report, or what its end means."""
        trial, run = self.trials[key.number], self._run(key)
        signal = self._interruption.received
        if report.outcome is not None and report.outcome.status != "interrupted":
            self._ended(key, report)
            return
        write_trial(self._folder, trial)
        if report.outcome is not None:
            return
        if signal is not None:
            self._runs.stop(key, "interrupted", f"by {signal}")
        elif not key.confirms and run is trial.watched and self._gives_up(trial):
            self._end(trial, "pruned", value=run.reports[-1][2], reason=f"given up after epoch {report.epoch}")
            self._runs.stop(key, "stopped early", "the searcher gave the trial up")
        else:
            self._runs.advance(key)

    def _hear(self, run: SeedRun, report: RunReport, begins: bool) -> None:
        """Keep the values of new reports; a run that begins again forgets those that it is going to repeat."""
        if begins:
            run.reports = [known for known in run.reports if known[0] <= report.epoch]
        for one in (*report.earlier, report):
            value = value_of(self._sweep, one, is_known=bool(run.reports))
            if value is not None and one.epoch > (run.reports[-1][0] if run.reports else 0):
                run.reports.append((one.epoch, one.env_steps, value))

    def _gives_up(self, trial: SweepTrial) -> bool:
        """Tell the searcher what is new; whether it wants no more of it."""
        wants_no_more = False
        for step, value in trial.watched.curve:
            if step > self._told.get(trial.number, -1):
                self._told[trial.number] = step
                wants_no_more = self._searcher.report(trial.number, step, value)
        return wants_no_more

    def _ended(self, key: RunKey, report: RunReport) -> None:
        """A run has used up its budget."""
        trial, run = self.trials[key.number], self._run(key)
        if not run.reports:
            raise no_such_metric(self._sweep, report)
        run.state = "done"
        if run.value(self._sweep.file.value, self._sweep.metric.minimize) is None:
            run.state, run.error = "failed", f"{self._sweep.metric.tag} is not finite"
        if key.confirms:
            self._confirm(trial)
            return
        if run is trial.watched and run.state == "done":
            write_trial(self._folder, trial)
            self._go_on_after(trial)
        else:
            self._settle(trial)

    def _go_on_after(self, trial: SweepTrial) -> None:
        """What follows what is known of a running trial; after a resume, too, where it may not have been done yet."""
        if trial.watched.state == "done":
            self._gives_up(trial)
        self._queue_seeds(trial)
        self._settle(trial)

    def _settle(self, trial: SweepTrial) -> None:
        """End a trial that one of its seeds has lost or all have finished; else write what is known."""
        runs = trial.seeds.values()
        lost = next((run for run in runs if run.state in ("diverged", "failed")), None)
        if lost is None and all(run.state == "done" for run in runs):
            self._end(trial, "done", value=self._objective(runs))
        elif lost is None:
            write_trial(self._folder, trial)
        elif lost.state == "diverged":
            reports = trial.watched.reports
            self._end(trial, "pruned", value=reports[-1][2] if reports else None, reason=f"diverged: {lost.error}")
        else:
            self._end(trial, "failed", reason=lost.error)

    def _failed(self, key: RunKey, error: MazeError) -> None:
        """Try a run that crashed once more; one that diverged, or cannot be begun, is over."""
        trial, run = self.trials[key.number], self._run(key)
        if is_about_metric(self._sweep, error):
            raise error
        if is_about_full_disk(error):  # it is running for trial.json, and so it goes on by a resume
            raise cannot_be_written(f"trial {trial.number}, seed {run.seed} could not be written", self._folder, error)
        run.failures += 1
        run.error = error.what
        diverged = isinstance(error, NonFiniteError)
        if not diverged and not isinstance(error, RequestError) and run.failures == 1:
            write_trial(self._folder, trial)
            self._progress.say(f"trial {trial.number}, seed {run.seed} failed and is tried again: {error.what}")
            self._queue.appendleft(key)
            return
        run.state = "diverged" if diverged else "failed"
        if key.confirms:
            self._confirm(trial)
        else:
            self._settle(trial)

    def _confirm(self, trial: SweepTrial) -> None:
        """Where all seeds have ended, what they come to; nothing where one of them failed."""
        runs = trial.confirm.values()
        if all(run.state == "done" for run in runs):
            trial.confirmed = self._objective(runs)
        write_trial(self._folder, trial)
        if all(run.is_over for run in runs):
            self._progress.confirmed(trial)
            self._write_summary()

    def _objective(self, runs: Iterable[SeedRun]) -> float:
        file, minimize = self._sweep.file, self._sweep.metric.minimize
        values = [run.value(file.value, minimize) for run in runs]
        return objective([value for value in values if value is not None], file.objective, minimize)

    def _end(self, trial: SweepTrial, state: str, *, value: float | None = None, reason: str | None = None) -> None:
        """Write how a trial ended, tell the searcher, and drop what it had still to do."""
        trial.state, trial.value, trial.reason = state, value, reason
        write_trial(self._folder, trial)
        self._searcher.finish(trial.number, state, value)
        self._queue = deque(key for key in self._queue if key.number != trial.number)
        self._progress.ended(trial, self.trials)
        self._write_summary()
        self._loaded.pop(trial.number, None)

    def _write_summary(self) -> None:
        """`table.csv`, and `best.toml` of the best trial so far."""
        minimize = self._sweep.metric.minimize
        table = self._folder / "table.csv"
        with writing("the table of the trials", table, self._folder):
            write_table(table, list(self.trials.values()))
        best = best_trial(self.trials.values(), minimize)
        if best is not None and self._sweep.base.text:
            heading = f"trial {best.number} of sweep {self._sweep.name}: {self._sweep.metric.tag} {best.value:.6g}"
            base = self._sweep.base
            resolved = self._experiment(best).resolved
            with writing("the best experiment", self._folder / "best.toml", self._folder):
                write_best(self._folder, resolved, base.origin.file, heading)
