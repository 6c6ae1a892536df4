"""The trials as a table: for files, and for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maze_runtime.run.storage import Storage, replace_file
from maze_sweeps.trials import SweepTrial, parameters


def write_table(path: Path, trials: Sequence[SweepTrial]) -> None:
    """A row a trial, by number, with a column for every setting that any of them has; what does not apply is empty."""
    names = _names(trials)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["number", "status", "value", "confirmed", *names])
    for trial in sorted(trials, key=lambda trial: trial.number):
        chosen = parameters(trial.draw)
        cells = [trial.number, trial.state, trial.value, trial.confirmed, *(chosen.get(name) for name in names)]
        writer.writerow(["" if cell is None else cell for cell in cells])
    replace_file(Storage(), path, file.getvalue().encode())


def terminal_table(trials: Sequence[SweepTrial], n_rows: int) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first trials, with a column for what was confirmed if anything was."""
    shown = trials[:n_rows]
    names = _names(shown)
    confirms = any(trial.confirmed is not None for trial in shown)
    header = ["trial", "state", "value", *(["confirmed"] if confirms else []), *names]
    rows = []
    for trial in shown:
        chosen = parameters(trial.draw)
        values = [trial.value, *([trial.confirmed] if confirms else [])]
        cells = ["" if value is None else f"{value:.6g}" for value in values]
        rows.append([str(trial.number), trial.state, *cells, *(shown_value(chosen.get(name, "")) for name in names)])
    return header, rows


def shown_draw(draw: Mapping[str, Any]) -> str:
    """What was chosen, on one line."""
    return ", ".join(f"{name}={shown_value(value)}" for name, value in parameters(draw).items())


def shown_value(value: Any) -> str:
    """A number with five digits, a text as it is."""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _names(trials: Sequence[SweepTrial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.draw))
