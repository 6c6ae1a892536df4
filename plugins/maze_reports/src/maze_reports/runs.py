"""A run as lists and comparisons see it: its experiment, its state and its statistics, read without importing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.errors import MazeError
from maze_reports.finding import find_runs
from maze_reports.metric import ChosenMetric
from maze_reports.run_state import RunState, run_state
from maze_reports.saved_progress import SavedProgress, saved_progress
from maze_reports.series import Series, SeriesTable, read_rows, statistics_folder, table_of
from maze_reports.settings import Settings, flat_settings
from maze_runtime.run.directory import RunRecord, open_run
from maze_runtime.run.metric_text import MEAN_REWARD, MetricText


@attrs.frozen(kw_only=True, eq=False, slots=False)
class RunEntry:
    """One run directory.

    Attributes:
        record: all of its `run.json`.
    """

    path: Path
    record: RunRecord

    @cached_property
    def table(self) -> SeriesTable:
        """Its statistics; empty where it wrote none."""
        return table_of(read_rows(self.path, statistics_folder(self.path, self.record.experiment)))

    @cached_property
    def saved(self) -> SavedProgress:
        """What its newest checkpoint says."""
        return saved_progress(self.path)

    @cached_property
    def state(self) -> RunState:
        """How it stands."""
        seconds = self.table.wall_seconds
        return run_state(self.path, float(seconds.max()) / max(self.n_epochs, 1) if len(seconds) else 0.0)

    @cached_property
    def settings(self) -> Settings:
        """Its experiment, flat."""
        return flat_settings(self.record.experiment)

    @property
    def n_epochs(self) -> int:
        """Epochs that wrote statistics; of a run that wrote none those that its checkpoint has."""
        return int(self.table.epoch.max()) if len(self.table) else self.saved.epoch

    @property
    def n_env_steps(self) -> int:
        """Environment steps until its last epoch."""
        return int(self.table.env_steps.max()) if len(self.table) else self.saved.env_steps

    @property
    def seed(self) -> int | None:
        """Of its experiment."""
        return self.record.experiment.get("seed")

    @property
    def trainer(self) -> str:
        """What trains."""
        return selected(self.record.experiment.get("trainer"))

    @property
    def env(self) -> str:
        """Its environment."""
        return selected(self.record.experiment.get("env"))

    @property
    def metric(self) -> ChosenMetric:
        """What it selects its best model by; of a run of an older version as far as its experiment says so."""
        evaluation = _table(self.record.experiment.get("evaluation"))
        named, evaluators = evaluation.get("metric"), _table(evaluation.get("evaluators"))
        read = MetricText.parse((named if isinstance(named, str) else self.record.metric) or MEAN_REWARD)
        measuring = _table(evaluators[name]) if (name := read.evaluator(evaluators)) else evaluation
        return ChosenMetric.of(read, evaluates=measuring.get("n_episodes") != 0)

    def series(self, metric: ChosenMetric) -> Series | None:
        """The values of a statistic; None where the run has none."""
        known = self.table.tags(metric.split)
        tag = next((tag for tag in metric.tags if tag in known), None)
        return None if tag is None else self.table.series(tag, split=metric.split)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def selected(table: Any) -> str:
    """What a table of an experiment selects, in a few words: its id or its `use`."""
    if not isinstance(table, Mapping):
        return "?"
    names = [table.get(key) for key in ("id", "version", "use")]
    return next((name for name in names if isinstance(name, str)), "?")


def open_runs(paths: Sequence[Path | str]) -> tuple[list[RunEntry], dict[Path, MazeError]]:
    """The runs in folders, and those that cannot be read with the reason.

    Raises:
        RequestError: there is no run.
    """
    entries, damaged = [], {}
    for path in find_runs(paths):
        try:
            entries.append(RunEntry(path=path, record=open_run(path).record))
        except MazeError as error:
            damaged[path] = error
    return entries, damaged
