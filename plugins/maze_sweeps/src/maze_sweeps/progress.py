"""What is shown while a sweep runs: the runs that are trained now, the best so far, the time left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from maze_runtime.training.budget import Budget
from maze_sweeps.ranking import best_trial
from maze_sweeps.tables import shown_draw

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_runtime.series.live_table import LiveTable
    from maze_runtime.series.run_actor import RunReport
    from maze_sweeps.trials import RunKey, SeedRun, SweepTrial

HEADER = ("trial", "seed", "trained", "steps", "last value", "settings")


@attrs.define(kw_only=True)
class _Row:
    budget: Budget
    report: RunReport | None = None
    value: float | None = None

    @property
    def share(self) -> float:
        """Of the budget, 0 to 1; 0 where there is none or nothing is known."""
        if self.report is None:
            return 0.0
        epochs = self.report.epoch / self.budget.n_epochs if self.budget.n_epochs else 0.0
        steps = self.report.env_steps / self.budget.max_env_steps if self.budget.max_env_steps else 0.0
        return min(1.0, max(epochs, steps))


class SweepProgress:
    """Shows runs and trials.

    Args:
        table: with the columns `HEADER`; None: nothing is shown.
        n_trials: how many there will be; 0: not known.
        n_seeds: runs a trial.
        n_confirm: runs that confirm.
        n_parallel: runs at a time.
    """

    def __init__(
        self, table: LiveTable | None, *, n_trials: int, n_seeds: int, n_confirm: int, n_parallel: int, minimize: bool
    ) -> None:
        self._table = table
        self._n_trials = n_trials
        self._n_seeds = n_seeds
        self._n_confirm = n_confirm
        self._n_parallel = n_parallel
        self._minimize = minimize
        self._rows: dict[RunKey, _Row] = {}
        self._seconds: list[float] = []

    @property
    def is_silent(self) -> bool:
        """Whether nothing is shown."""
        return self._table is None

    def say(self, line: str) -> None:
        """A line that stays."""
        if self._table is not None:
            self._table.say(line)

    def begin(self, key: RunKey, loaded: LoadedExperiment) -> None:
        """A run is started."""
        self._rows[key] = _Row(budget=Budget.of(loaded.experiment.trainer.option))

    def report(self, key: RunKey, report: RunReport, run: SeedRun) -> None:
        """A run has reported."""
        row = self._rows.get(key)
        if row is not None:
            row.report = report
            row.value = run.reports[-1][2] if run.reports else None

    def end(self, key: RunKey, report: RunReport | None) -> None:
        """A run is over."""
        self._rows.pop(key, None)
        if report is not None and report.outcome is not None and report.outcome.status in ("done", "stopped early"):
            self._seconds.append(report.wall_seconds)

    def ended(self, trial: SweepTrial, trials: Mapping[int, SweepTrial]) -> None:
        """A trial is over."""
        value = "" if trial.value is None else f", {trial.value:.6g}"
        reason = f" ({trial.reason})" if trial.reason else ""
        best = best_trial(trials.values(), self._minimize)
        beside = "" if best is None else ", the best so far" if best is trial else f"; best {best.value:.6g}"
        over = sum(one.state != "running" for one in trials.values())
        count = f"{over}/{self._n_trials}" if self._n_trials else str(over)
        self.say(f"[{count}] trial {trial.number}: {trial.state}{reason}{value}{beside}; {shown_draw(trial.draw)}")

    def confirmed(self, trial: SweepTrial) -> None:
        """A trial was trained on its further seeds."""
        failed = [run.seed for run in trial.confirm.values() if run.state != "done"]
        what = f"not confirmed, seed {failed[0]} failed" if failed else f"{trial.confirmed:.6g} on seeds never seen"
        self.say(f"trial {trial.number}: {what}, {trial.value:.6g} in the search")

    def show(self, trials: Mapping[int, SweepTrial]) -> None:
        """Redraw the table."""
        if self._table is not None:
            rows = [self._cells(key, row, trials[key.number]) for key, row in sorted(self._rows.items())]
            self._table.show(rows, self._caption(trials))

    def seconds_left(self, trials: Mapping[int, SweepTrial]) -> float | None:
        """How long it may take still; None where that cannot be told."""
        if not self._seconds or not self._n_trials:
            return None
        over = sum(trial.state != "running" for trial in trials.values())
        left = float((self._n_trials - over) * self._n_seeds + self._n_confirm)
        left -= sum(run.is_over for trial in trials.values() for run in trial.confirm.values())
        left -= sum(row.share for row in self._rows.values())
        left -= sum(run.is_over for t in trials.values() if t.state == "running" for run in t.seeds.values())
        mean = sum(self._seconds) / len(self._seconds)
        return max(0.0, left) * mean / self._n_parallel

    def _cells(self, key: RunKey, row: _Row, trial: SweepTrial) -> list[str]:
        steps = "" if row.report is None else f"{row.report.env_steps:,}"
        value = "" if row.value is None else f"{row.value:.6g}"
        seed = f"{key.seed} (confirms)" if key.confirms else str(key.seed)
        return [str(key.number), seed, f"{row.share:.0%}", steps, value, shown_draw(trial.draw)]

    def _caption(self, trials: Mapping[int, SweepTrial]) -> str:
        over = [trial for trial in trials.values() if trial.state != "running"]
        best = best_trial(over, self._minimize)
        of = f" of {self._n_trials}" if self._n_trials else ""
        parts = [f"{len(over)}{of} trials"]
        if best is not None:
            parts.append(f"best {best.value:.6g} of trial {best.number}")
        left = self.seconds_left(trials)
        if left is not None:
            minutes, seconds = divmod(round(left), 60)
            parts.append(f"about {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left")
        return ", ".join(parts)
