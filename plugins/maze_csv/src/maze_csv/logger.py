"""Writes `train.csv` and `eval.csv`: one row an epoch and statistic.

The long form (epoch, env_steps, wall_seconds, tag, value) lets a statistic appear at any epoch without rewriting what
stands there, and every row is on its own: a crash loses no more than the epoch being written.
"""

from __future__ import annotations

import csv
import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maze_csv.options import CsvOptions
from maze_kernel.contracts.logger import EpochRecord, LoggerContext

COLUMNS = ("epoch", "env_steps", "wall_seconds", "tag", "value")
"""The columns of every file. The file's name says whether the value is of training or of evaluation."""
SPLITS = ("train", "eval")
"""The names of the files; others in their folder are the user's."""


class CsvLogger:
    """One file for training and one for evaluation statistics; only single numbers are written."""

    def __init__(self, context: LoggerContext, options: CsvOptions) -> None:
        self._folder = Path(context.run_dir) / options.folder
        self._folder.mkdir(exist_ok=True)
        for split in SPLITS:
            if (path := self._folder / f"{split}.csv").exists():
                _drop_later_rows(path, context.resumed_epoch)

    def write(self, record: EpochRecord) -> None:
        """Append the rows of one epoch."""
        beginning = (record.epoch, record.env_steps, f"{record.wall_seconds:.3f}")
        for split, statistics in zip(SPLITS, (record.train, record.evaluation), strict=True):
            numbers = {tag: _number(value) for tag, value in statistics.items()}
            rows = [(*beginning, tag, repr(number)) for tag, number in numbers.items() if number is not None]
            if rows:
                _append(self._folder / f"{split}.csv", rows)


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _append(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    is_new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerows(rows)


def _drop_later_rows(path: Path, last_epoch: int) -> None:
    """Keep rows up to an epoch; those of later epochs, and half a row at the end, will be written again."""
    with open(path, newline="", encoding="utf-8") as file:
        text = file.read()
    whole = text[: text.rfind("\n") + 1]
    rows = [row for row in csv.reader(whole.splitlines()) if len(row) == len(COLUMNS) and row[0].isdigit()]
    temporary = path.with_name(f".tmp-{path.name}")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row for row in rows if int(row[0]) <= last_epoch)
    os.replace(temporary, path)
