"""Cuts the event files of an interrupted run back to the epoch it resumes from."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

_PATTERN = "events.out.tfevents.*"


def keep_until(folder: Path, last_epoch: int, epoch_tag: str) -> int | None:
    """Merge the event files of a folder into one that ends with `last_epoch`.

    Args:
        epoch_tag: the scalar whose value is the epoch and that ends each epoch's events.

    Returns:
        Where the last epoch that was kept stands on the horizontal axis; None where none was.
    """
    files = sorted(folder.glob(_PATTERN), key=lambda path: _beginning(path, epoch_tag))
    if not files:
        return None
    step = None
    temporary = folder / ".tmp-events"
    with open(temporary, "wb") as stream:
        writer: Any = RecordWriter(stream)
        for event in _kept_events(files, last_epoch, epoch_tag):
            writer.write(event.SerializeToString())
            step = event.step if _epoch(event, epoch_tag) is not None else step
        writer.flush()
    os.replace(temporary, files[0])
    for path in files[1:]:
        path.unlink()
    return step


def _beginning(path: Path, epoch_tag: str) -> tuple[float, float]:
    """The first epoch of a file and when it was begun, which copies of it keep; file times are those of the copy."""
    begun = math.inf
    for event in _events(path):
        begun = min(begun, event.wall_time)
        epoch = _epoch(event, epoch_tag)
        if epoch is not None:
            return epoch, begun
    return math.inf, begun


def _kept_events(files: list[Path], last_epoch: int, epoch_tag: str) -> Iterator[Any]:
    seen = 0
    has_header = False
    for path in files:
        pending: list[Any] = []
        for event in _events(path):
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


def _events(path: Path) -> Iterator[Any]:
    try:
        yield from LegacyEventFileLoader(str(path)).Load()
    except Exception:  # half a record at the end of a file whose writer was killed
        return


def _epoch(event: Any, epoch_tag: str) -> int | None:
    for value in event.summary.value:
        if value.tag == epoch_tag:
            return int(value.simple_value)
    return None
