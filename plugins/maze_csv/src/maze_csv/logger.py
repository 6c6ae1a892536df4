"""Writes `train.csv` and `eval.csv`: one row an epoch and statistic.

The long form (epoch, env_steps, wall_seconds, tag, value) lets a statistic appear at any epoch without rewriting what
stands there, and every row is on its own: a crash loses no more than the epoch being written.
"""

from __future__ import annotations

import csv
import numbers
import os
from collections import defaultdict
from pathlib import Path

from maze_csv.options import CsvOptions
from maze_kernel.run.logging_contract import EpochRecord, LoggerContext, Statistic

COLUMNS = ("epoch", "env_steps", "wall_seconds", "tag", "value")
"""The columns of every file. Tags carry no train_ or eval_ prefix: the file's name says which it is."""


class CsvLogger:
    """One file for training and one for evaluation statistics; only single numbers are written."""

    def __init__(self, context: LoggerContext, options: CsvOptions) -> None:
        self._folder = Path(context.run_dir) / options.folder
        self._folder.mkdir(exist_ok=True)
        for path in self._folder.glob("*.csv"):
            _drop_later_rows(path, context.resumed_epoch)

    def write(self, record: EpochRecord) -> None:
        """Append the rows of one epoch."""
        by_file: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for statistic in record.statistics:
            number = _number(statistic)
            if number is not None:
                prefix, tag = _split(statistic.tag)
                row = (record.epoch, record.env_steps, f"{record.wall_seconds:.3f}", tag, repr(number))
                by_file[prefix].append(row)
        for prefix, rows in by_file.items():
            _append(self._folder / f"{prefix}.csv", rows)


def _split(tag: str) -> tuple[str, str]:
    prefix, _, rest = tag.partition("_")
    return (prefix, rest) if prefix in ("train", "eval") else ("other", tag)


def _number(statistic: Statistic) -> float | int | None:
    value = statistic.value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _append(path: Path, rows: list[tuple[object, ...]]) -> None:
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
