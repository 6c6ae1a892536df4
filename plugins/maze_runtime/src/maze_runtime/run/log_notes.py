"""What pools hear from elsewhere, such as a cluster's own warnings, as lines of a run's `log.txt`.

It reaches them as records of Python's logger `maze` and those below it, from whatever thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

LOGGER = logging.getLogger("maze")


class LogNotes(logging.Handler):
    """While it is entered, every record below `LOGGER` is a note; other handlers get what they got before.

    Args:
        note: takes a line.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`."""
        self._note(record.getMessage())

    def __enter__(self) -> LogNotes:
        LOGGER.addHandler(self)
        LOGGER.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *exc: object) -> None:
        LOGGER.removeHandler(self)
        if not any(isinstance(handler, LogNotes) for handler in LOGGER.handlers):
            LOGGER.setLevel(logging.NOTSET)
