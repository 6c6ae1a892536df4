"""The folder of a sweep, as far as a report reads it; whoever writes it may put more into its files.

    sweep.json                 {"format": 1, "name": "lander", "metric": "BaseEnvEvents/reward/mean"}
    trials/0007/trial.json     {"number": 7, "status": "done", "parameters": {"trainer.lr": 0.001}, "value": 231.5}
    trials/0007/seed-1/        an ordinary run directory
    confirm/0007/seed-4/       one that confirms the trial

A minus before the metric means that less is better. `status` is "running", "done", "pruned" or "failed"; `parameters`
maps settings to the values that were tried, without those that do not apply; `value` is missing while there is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from maze_reports.charts.parameters import Trial
from maze_runtime.run.metric_text import MEAN_REWARD, MetricText
from maze_runtime.run.regular_file import read_regular

FORMAT = 1


@attrs.frozen(kw_only=True)
class StoredSweep:
    """A sweep as its folder says.

    Attributes:
        status: trial name to how it ended.
    """

    path: Path
    name: str
    metric: str
    minimize: bool
    trials: tuple[Trial, ...]
    status: Mapping[str, str]


def sweeps_in(paths: Sequence[Path]) -> list[StoredSweep]:
    """The sweeps among folders and two levels below (`sweeps/<name>/<time>/`); unreadable ones are left out."""
    files = {
        file.resolve(): file
        for path in paths
        for depth in ("", "*/", "*/*/")
        for file in sorted(path.glob(f"{depth}sweep.json"))
    }
    found = [_read(file) for file in files.values()]
    return [sweep for sweep in found if sweep is not None]


def _read(file: Path) -> StoredSweep | None:
    data = _json(file)
    if data is None or data.get("format") != FORMAT:
        return None
    metric = MetricText.parse(str(data.get("metric") or MEAN_REWARD))
    rows = [(trial.parent.name, _json(trial)) for trial in sorted(file.parent.glob("trials/*/trial.json"))]
    trials = {name: row for name, row in rows if row is not None}
    return StoredSweep(
        path=file.parent,
        name=str(data.get("name") or file.parent.parent.name),
        metric=str(metric),
        minimize=metric.minimize,
        trials=tuple(_trial(name, row) for name, row in trials.items()),
        status={_trial_name(name, row): str(row.get("status", "?")) for name, row in trials.items()},
    )


def _trial(folder: str, row: Mapping[str, Any]) -> Trial:
    value, parameters = row.get("value"), row.get("parameters")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return Trial(
        name=_trial_name(folder, row),
        parameters=dict(parameters) if isinstance(parameters, Mapping) else {},
        value=float(value) if is_number else None,  # type: ignore[arg-type]
    )


def _trial_name(folder: str, row: Mapping[str, Any]) -> str:
    return f"trial {row.get('number', folder)}"


def _json(file: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(read_regular(file))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
