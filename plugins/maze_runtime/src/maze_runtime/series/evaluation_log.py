"""What each evaluation of a run measured, kept beside its checkpoints, so that whoever asks for a run misses none.

A line an evaluation, as JSON, in `evaluations.jsonl` of the run directory. It is written before the checkpoint of the
same epoch: a run that goes on has the lines of every epoch up to there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maze_kernel.contracts.logger import EpochRecord
from maze_runtime.run.storage import Storage, replace_file

FILE = "evaluations.jsonl"


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
        """The lines up to an epoch; later ones, which are trained again, and half-written ones are removed."""
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole = text[: text.rfind("\n") + 1].splitlines()
        kept = [line for line in whole if json.loads(line)["epoch"] <= epoch]
        if len(kept) < len(whole) or not text.endswith("\n"):
            replace_file(Storage(), self._file, "".join(f"{line}\n" for line in kept).encode())
        return [json.loads(line) for line in kept]


def numbers_of(statistics: Mapping[str, Any]) -> dict[str, float]:
    """Histograms, texts and figures stay with the other loggers of the run."""
    found = {}
    for tag, value in statistics.items():
        if isinstance(value, (bool, int, float)) or getattr(value, "shape", None) == ():
            found[tag] = float(value)
    return found
