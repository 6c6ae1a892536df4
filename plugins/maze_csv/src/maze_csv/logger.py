"""Writes `train.csv` and `eval.csv`: one row an epoch and statistic.

The long form (epoch, env_steps, wall_seconds, tag, value) lets a statistic appear at any epoch without rewriting what
stands there, and every row is on its own: a crash loses no more than the epoch being written.
"""

from __future__ import annotations

import csv
import itertools
import numbers
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maze_csv.options import CsvOptions
from maze_kernel.contracts.logger import EpochRecord, LoggerContext
from maze_kernel.errors import MazeWarning

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
            numbers = {" ".join(tag.splitlines()): _number(value) for tag, value in statistics.items()}
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
    """Keep rows up to an epoch; those of later epochs, and half a row at the end, will be written again.

    Damaged rows are dropped, too: a warning says so, and names the file in which they still are.
    """
    if not path.is_file():
        raise OSError(f"{path} is no regular file")
    *lines, half = path.read_bytes().split(b"\n")
    epochs = [_epoch(line) for line in lines]
    n_damaged = epochs.count(None) + (b"\0" in half)
    temporary = path.with_name(f".tmp-{path.name}")
    kept = [line for line, epoch in zip(lines, epochs, strict=True) if epoch is not None and 0 < epoch <= last_epoch]
    temporary.write_bytes(b"\n".join([",".join(COLUMNS).encode(), *kept, b""]))
    if n_damaged:
        damaged = _unused(path.with_name(f"{path.name}.damaged"))
        shutil.copy2(path, damaged)
        rows = "1 damaged row" if n_damaged == 1 else f"{n_damaged} damaged rows"
        warnings.warn(f"{path}: dropped {rows}; the file as it was is {damaged.name}", MazeWarning, stacklevel=2)
    os.replace(temporary, path)


def _epoch(line: bytes) -> int | None:
    """Of a row; 0 of the header and of an empty line, None of a damaged row."""
    try:
        text = line.decode().strip()
        if text in ("", ",".join(COLUMNS)):
            return 0
        epoch, env_steps, seconds, tag, value = next(csv.reader([text]))
        int(env_steps), float(seconds), float(value)
        return None if "\0" in tag else int(epoch)
    except (ValueError, csv.Error):
        return None


def _unused(path: Path) -> Path:
    """The path, with a number behind it where it is taken."""
    names = (path.with_name(f"{path.name}-{number}" if number > 1 else path.name) for number in itertools.count(1))
    return next(name for name in names if not name.exists())
