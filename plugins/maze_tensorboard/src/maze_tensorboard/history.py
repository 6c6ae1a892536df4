"""Cuts the event files of an interrupted run back to the epoch it resumes from."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from maze_kernel.errors import MazeWarning
from maze_runtime.run.storage import keep_copy
from maze_tensorboard.event_file import events_in

_PATTERN = "events.out.tfevents.*"


def keep_until(folder: Path, last_epoch: int, epoch_tag: str) -> int | None:
    """Merge the event files of a folder into one that ends with `last_epoch`.

    Files that are damaged are kept under another name, and a warning says so.

    Args:
        epoch_tag: the scalar whose value is the epoch and that ends each epoch's events.

    Returns:
        Where the last epoch that was kept stands on the horizontal axis; None where none was.
    """
    found = [path for path in folder.glob(_PATTERN) if path.is_file()]
    files = sorted(found, key=lambda path: _beginning(path, epoch_tag))
    if not files:
        return None
    step = None
    damaged: set[Path] = set()
    temporary = folder / ".tmp-events"
    with open(temporary, "wb") as stream:
        writer: Any = RecordWriter(stream)
        for event in _kept_events(files, last_epoch, epoch_tag, damaged):
            writer.write(event.SerializeToString())
            step = event.step if _epoch(event, epoch_tag) is not None else step
        writer.flush()
    for path in sorted(damaged):
        _keep(path)
    os.replace(temporary, files[0])
    for path in files[1:]:
        path.unlink()
    return step


def _beginning(path: Path, epoch_tag: str) -> tuple[float, float]:
    """The first epoch of a file and when it was begun, which copies of it keep; file times are those of the copy."""
    begun = math.inf
    for event in filter(None, events_in(path)):
        begun = min(begun, event.wall_time)
        epoch = _epoch(event, epoch_tag)
        if epoch is not None:
            return epoch, begun
    return math.inf, begun


def _kept_events(files: list[Path], last_epoch: int, epoch_tag: str, damaged: set[Path]) -> Iterator[Any]:
    seen = 0
    has_header = False
    for path in files:
        pending: list[Any] = []
        for event in events_in(path):
            if event is None:
                damaged.add(path)
                continue
            if event.WhichOneof("what") != "summary":
                if not has_header:
                    has_header = True
                    yield event
                continue
            pending.append(event)
            epoch = _epoch(event, epoch_tag)
            if epoch is not None:
                if seen < epoch <= last_epoch:
                    seen = epoch
                    yield from pending
                pending = []


def _keep(path: Path) -> None:
    """A copy under a name that TensorBoard does not read."""
    kept = keep_copy(path, path.name.replace("tfevents", "damaged"))
    warnings.warn(f"{path}: left out what is damaged; the file as it was is {kept}", MazeWarning, stacklevel=2)


def _epoch(event: Any, epoch_tag: str) -> int | None:
    for value in event.summary.value:
        if value.tag == epoch_tag:
            return int(value.simple_value)
    return None
