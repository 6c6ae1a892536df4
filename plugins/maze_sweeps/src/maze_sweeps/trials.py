"""The trials of a sweep, and how each is kept in its folder.

trials/0007/trial.json   what was chosen, what became of each seed, the value
trials/0007/seed-1/      an ordinary run directory
confirm/0007/seed-4/     another one, of a seed that the search never saw
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np

from maze_kernel.errors import FormatError, RequestError
from maze_runtime.run.storage import Storage, remove_leftovers, replace_json
from maze_runtime.series.bootstrap import interquartile_mean
from maze_sweeps.contract import PastTrial
from maze_sweeps.disk import writing
from maze_sweeps.items import set_items
from maze_sweeps.space import Draw, Space

FORMAT = 1


class RunKey(NamedTuple):
    """Which run of which trial; `confirms`: on a seed that the search never saw."""

    number: int
    seed: int
    confirms: bool = False


@attrs.define(kw_only=True)
class SeedRun:
    """One run of a trial.

    Attributes:
        state: "waiting", "running", "done", "diverged" or "failed".
        reports: epoch, environment steps and value of each evaluation, in order.
        failures: how often it failed.
        error: why it diverged or failed.
    """

    seed: int
    state: str = "waiting"
    reports: list[tuple[int, int, float]] = attrs.field(factory=list)
    failures: int = 0
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in ("done", "diverged", "failed")

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Step and value of each report, as a searcher is told: epochs where no environment steps are taken."""
        return [(env_steps or epoch, value) for epoch, env_steps, value in self.reports]

    def value(self, which: str, minimize: bool) -> float | None:
        """The best or the last value; None where there is none that is finite.

        Args:
            which: "best" or "last".
        """
        values = [value for _, _, value in self.reports]
        if which == "last":
            values = values[-1:]
        finite = [value for value in values if math.isfinite(value)]
        return (min(finite) if minimize else max(finite)) if finite else None


@attrs.define(kw_only=True)
class SweepTrial:
    """One trial.

    Attributes:
        state: one of `contract.TRIAL_STATES`.
        settings: path to value.
        value: the objective over its seeds; of a pruned one the last report.
        reason: why it was pruned or failed.
        seeds, confirm: its runs by seed; `confirm` is empty where it is not trained again.
        confirmed: the objective over the seeds that the search never saw.
    """

    number: int
    draw: Draw
    settings: Mapping[str, Any]
    state: str = "running"
    value: float | None = None
    reason: str | None = None
    seeds: dict[int, SeedRun] = attrs.field(factory=dict)
    confirm: dict[int, SeedRun] = attrs.field(factory=dict)
    confirmed: float | None = None

    @property
    def folder_name(self) -> str:
        """Of its folders in `trials/` and `confirm/`."""
        return f"{self.number:04d}"

    @property
    def watched(self) -> SeedRun:
        """The run that says whether to go on."""
        return next(iter(self.seeds.values()))

    def as_past(self) -> PastTrial:
        """What a searcher is told after a resume."""
        reports = tuple(self.watched.curve)
        return PastTrial(number=self.number, draw=self.draw, state=self.state, value=self.value, reports=reports)


def new_trial(number: int, draw: Draw, space: Space, seeds: Sequence[int]) -> SweepTrial:
    """A trial nothing of which was trained yet."""
    runs = {seed: SeedRun(seed=seed) for seed in seeds}
    return SweepTrial(number=number, draw=dict(draw), settings=space.settings(draw), seeds=runs)


def objective(values: Sequence[float], kind: str, minimize: bool) -> float:
    """What the values of several seeds come to.

    Args:
        kind: "mean", "iqm", the mean without the lowest and the highest quarter, or "min", the worst.
        minimize: whether less is better, so that the worst is the largest.
    """
    if kind == "min":
        return max(values) if minimize else min(values)
    array = np.asarray(values, np.float64)
    return float(interquartile_mean(array) if kind == "iqm" else array.mean())


def write_trial(folder: Path, trial: SweepTrial) -> None:
    """Put `trial.json` into the folder of the sweep, whole or not at all.

    Raises:
        MazeError: it could not be written; what was there before still is.
    """
    file = folder / "trials" / trial.folder_name / "trial.json"
    with writing(f"trial {trial.number}", file, folder):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_json(Storage(), file, _to_data(trial))


def read_trials(folder: Path, space: Space) -> list[SweepTrial]:
    """The trials of a sweep by number; folders without `trial.json`, in which nothing was begun, are left out.

    Raises:
        RequestError: a file is damaged, or does not fit the space.
        FormatError: another version of Maze wrote it.
    """
    found = []
    for path in sorted((folder / "trials").glob("*")):
        remove_leftovers(path)
        file = path / "trial.json"
        if file.is_file():
            found.append(_read(file, space))
    return sorted(found, key=lambda trial: trial.number)


def _read(file: Path, space: Space) -> SweepTrial:
    try:
        data = json.loads(file.read_bytes())
        if data["format"] != FORMAT:
            raise FormatError(f"{file} has another format", received=str(data["format"]), expected=str(FORMAT))
        return SweepTrial(
            number=int(data["number"]),
            draw=data["draw"],
            settings=space.settings(data["draw"]),
            state=str(data["status"]),
            value=data.get("value"),
            reason=data.get("reason"),
            seeds=_runs_from(data["seeds"]),
            confirm=_runs_from(data.get("confirm", [])),
            confirmed=data.get("confirmed"),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{file} cannot be read: {error!r}", help="remove its folder to train it anew") from error


def _to_data(trial: SweepTrial) -> dict[str, Any]:
    data = {
        "format": FORMAT,
        "number": trial.number,
        "status": trial.state,
        "value": trial.value,
        "confirmed": trial.confirmed,
        "reason": trial.reason,
        "parameters": parameters(trial.draw),
        "set": list(set_items(trial.settings)),
        "draw": dict(trial.draw),
        "seeds": [attrs.asdict(run) for run in trial.seeds.values()],
        "confirm": [attrs.asdict(run) for run in trial.confirm.values()],
    }
    return {key: value for key, value in data.items() if value is not None}


def parameters(draw: Draw) -> dict[str, Any]:
    """What was chosen, as numbers and texts."""
    return {
        name: value if isinstance(value, (bool, int, float, str)) else json.dumps(value) for name, value in draw.items()
    }


def _runs_from(data: Sequence[Mapping[str, Any]]) -> dict[int, SeedRun]:
    runs = [SeedRun(**{**row, "reports": [tuple(report) for report in row["reports"]]}) for row in data]
    return {run.seed: run for run in runs}
