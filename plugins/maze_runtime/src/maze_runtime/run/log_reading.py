"""What a run's `log.txt` says of how it stands."""

from __future__ import annotations

import re
from pathlib import Path

from maze_runtime.run.regular_file import read_regular

_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", re.MULTILINE)
_OF_LOGGERS = "logger "
"""What complaints of loggers begin with; they may follow the note that ends a run."""


def last_note(run: Path) -> str:
    """What was noted last but for complaints of loggers, such as "done: all 24 epochs done"; empty where nothing was.

    Args:
        run: a run directory.
    """
    said = [note for note in _notes(run) if not note.startswith(_OF_LOGGERS)]
    return said[-1] if said else ""


def last_complaint(run: Path) -> str:
    """What was noted of loggers behind that, such as "logger failures: CsvLogger 1"; empty where nothing was.

    Args:
        run: a run directory.
    """
    note = (_notes(run) or [""])[-1]
    return note if note.startswith(_OF_LOGGERS) else ""


def _notes(run: Path) -> list[str]:
    """What follows each time stamp; lines without one, as tracebacks have them, go on with the note before."""
    try:
        text = read_regular(run / "log.txt").decode(errors="replace")
    except OSError:
        return []
    return [note.rstrip() for note in _STAMP.split(text)[1:]]
