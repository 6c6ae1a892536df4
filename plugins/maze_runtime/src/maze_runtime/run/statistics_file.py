"""Reads `train.csv` and `eval.csv` of the `csv` logger, as far as they are whole."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from maze_kernel.errors import MazeWarning
from maze_runtime.run.regular_file import read_regular

_COUNT_LIMIT = 1 << 63


class StatisticsRow(NamedTuple):
    """One statistic of one epoch.

    Attributes:
        env_steps: environment steps until then.
        wall_seconds: seconds until then.
        tag: such as "BaseEnvEvents/reward/mean".
    """

    epoch: int
    env_steps: int
    wall_seconds: float
    tag: str
    value: float


def statistics_rows(file: Path) -> Iterator[StatisticsRow]:
    """The rows of a file, none where there is no such file; half a row at its end is one that is being written.

    Warns of what else is left out: damaged rows, or a file that cannot be read.
    """
    try:
        *lines, rest = read_regular(file).split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        warnings.warn(f"statistics were left out: {error}", MazeWarning, stacklevel=2)
        return
    damaged = []
    for number, line in enumerate(lines if b"\0" not in rest else [*lines, rest], 1):
        row = _row(line)
        if row is not None:
            yield row
        elif line.strip() and (number > 1 or not line.startswith(b"epoch,")):
            damaged.append(number)
    if damaged:
        rows = "1 damaged row" if len(damaged) == 1 else f"{len(damaged)} damaged rows, the first"
        warnings.warn(f"{file}: left out {rows} in line {damaged[0]}", MazeWarning, stacklevel=2)


def _row(line: bytes) -> StatisticsRow | None:
    """None where it is damaged. Each line is read by itself: an open quote would take all that follow along."""
    try:
        text = line.decode()
        epoch, env_steps, seconds, tag, value = next(csv.reader([text])) if '"' in text else text.split(",")
        row = StatisticsRow(int(epoch), int(env_steps), float(seconds), tag, float(value))
    except (ValueError, csv.Error):
        return None
    return row if 0 <= row.epoch < _COUNT_LIMIT and 0 <= row.env_steps < _COUNT_LIMIT and "\0" not in tag else None
