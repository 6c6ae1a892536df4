"""`maze list-runs`: a row a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_reports.runs import RunEntry, open_runs

HEADER = ("run", "experiment", "trainer", "environment", "seed", "epochs", "last", "best", "state", "when")


@attrs.frozen(kw_only=True)
class ListedRun:
    """What a list says of a run; of a damaged one no more than the reason.

    Attributes:
        metric: the statistic that `last` and `best` are values of.
        created: UTC, ISO 8601.
        state: see `maze_reports.run_state`, or "damaged".
    """

    run: str
    experiment: str = ""
    trainer: str = ""
    environment: str = ""
    seed: int | None = None
    epochs: int = 0
    env_steps: int = 0
    metric: str = ""
    last: float | None = None
    best: float | None = None
    state: str = ""
    reason: str = ""
    created: str = ""


def list_runs(paths: Sequence[Path | str]) -> list[ListedRun]:
    """The runs in folders, oldest first.

    Raises:
        RequestError: there is no run.
    """
    entries, damaged = open_runs(paths)
    rows = [listed(entry) for entry in entries]
    rows += [ListedRun(run=str(path), state="damaged", reason=error.what) for path, error in damaged.items()]
    return sorted(rows, key=lambda row: (row.created, row.run))


def listed(entry: RunEntry) -> ListedRun:
    """The row of one run."""
    series = entry.series(entry.metric)
    values = np.empty(0) if series is None else series.value[np.isfinite(series.value)]
    return ListedRun(
        run=str(entry.path),
        experiment=entry.record.name,
        trainer=entry.trainer,
        environment=entry.env,
        seed=entry.seed,
        epochs=entry.n_epochs,
        env_steps=entry.n_env_steps,
        metric=str(entry.metric),
        last=float(values[-1]) if len(values) else None,
        best=entry.metric.best(values) if len(values) else None if len(entry.table) else entry.saved.best_metric,
        state=entry.state.name,
        reason=entry.state.reason,
        created=entry.record.created,
    )


def table_rows(rows: Sequence[ListedRun]) -> list[list[str]]:
    """The cells below `HEADER`."""
    return [_cells(row) for row in rows]


def as_data(rows: Sequence[ListedRun]) -> list[dict[str, Any]]:
    """Plain data, for `--json`."""
    return [attrs.asdict(row) for row in rows]


def number(value: float | None) -> str:
    """A number of a table; nothing is a dash."""
    return "–" if value is None or not np.isfinite(value) else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _cells(row: ListedRun) -> list[str]:
    when = row.created.replace("T", " ").removesuffix("Z")[:16]
    seed = "–" if row.seed is None else str(row.seed)
    numbers = [str(row.epochs), number(row.last), number(row.best)]
    return [row.run, row.experiment, row.trainer, row.environment, seed, *numbers, row.state, when]
