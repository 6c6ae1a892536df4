"""What each evaluation of a run measured, kept beside its checkpoints, so that whoever asks for a run misses none.

A line an evaluation, as JSON, in `evaluations.jsonl` of the run directory. It is written before the checkpoint of the
same epoch: a run that goes on has the lines of every epoch up to there.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maze_kernel.contracts.logger import EpochRecord
from maze_kernel.errors import MazeWarning
from maze_runtime.run.storage import Storage, keep_copy, replace_file

FILE = "evaluations.jsonl"
_KEYS = {"epoch", "env_steps", "wall_seconds", "train", "evaluation"}


class EvaluationLog:
    """A logger of the numbers of evaluated epochs; see `Logger`.

    Args:
        every_epoch: keep epochs without an evaluation, too.
    """

    def __init__(self, run_dir: Path, *, every_epoch: bool = False) -> None:
        self._file = run_dir / FILE
        self._every_epoch = every_epoch

    def write(self, record: EpochRecord) -> None:
        """Add a line, and flush it to the disk."""
        if not record.evaluation and not self._every_epoch:
            return
        line = {
            "epoch": record.epoch,
            "env_steps": record.env_steps,
            "wall_seconds": record.wall_seconds,
            "train": numbers_of(record.train),
            "evaluation": numbers_of(record.evaluation),
        }
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def go_on_from(self, epoch: int) -> list[dict[str, Any]]:
        """The lines up to an epoch; later ones, which are trained again, and half-written ones are removed.

        So are damaged ones: a warning says so, and names the file in which they still are.
        """
        try:
            *lines, half = self._file.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        read = [_read(line) for line in lines]
        if n_damaged := read.count(None):
            kept = keep_copy(self._file, f"{FILE}.damaged")
            what = "1 damaged line" if n_damaged == 1 else f"{n_damaged} damaged lines"
            told = f"{self._file}: left out {what}; the file as it was is {kept}"
            warnings.warn(told, MazeWarning, stacklevel=2)
        found = [row for row in read if row is not None and row["epoch"] <= epoch]
        if len(found) < len(lines) or half:
            data = "".join(json.dumps(row) + "\n" for row in found)
            replace_file(Storage(), self._file, data.encode())
        return found


def _read(line: bytes) -> dict[str, Any] | None:
    """None where it is damaged."""
    try:
        row = json.loads(line.decode())
        return row if row.keys() == _KEYS and isinstance(row["epoch"], int) else None
    except (ValueError, AttributeError):
        return None


def numbers_of(statistics: Mapping[str, Any]) -> dict[str, float]:
    """Histograms, texts and figures stay with the other loggers of the run."""
    found = {}
    for tag, value in statistics.items():
        if isinstance(value, (bool, int, float)) or getattr(value, "shape", None) == ():
            found[tag] = float(value)
    return found
