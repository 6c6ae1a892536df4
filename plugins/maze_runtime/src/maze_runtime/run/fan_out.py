"""Hands statistics to every logger and keeps them from ever stopping a run."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.logger import EpochRecord, Logger, Outcome, Progress
from maze_kernel.contracts.networks import NetworkGraph
from maze_kernel.errors import MazeWarning, RequestError
from maze_kernel.selection import Selection

_PROGRESS_INTERVAL_SECONDS = 0.1
_WARNING = "warning: "


def writing(logger: Any, selection: Selection) -> Logger:
    """The logger, if it can write.

    Raises:
        RequestError: it has no method `write`, the only one that every logger needs.
    """
    if not callable(getattr(logger, "write", None)):
        raise RequestError(
            f"logger {selection.use!r} has no method `write`, so statistics would be lost",
            location=selection.location,
            received=type(logger).__qualname__,
            expected="write(record), called with the EpochRecord of every epoch",
            owner=selection.owner,
            help="correct its class, or take it out of [[loggers]]",
        )
    return logger  # type: ignore[no-any-return]


class FanOut:
    """All loggers of a run, and its `log.txt`.

    Attributes:
        failures: calls that raised, by the class name of the logger.
    """

    def __init__(self, loggers: Sequence[Logger], log_file: Path | None = None) -> None:
        self._loggers = list(loggers)
        self._log_file = log_file
        self._passed_on: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def add(self, loggers: Sequence[Logger], refused: Mapping[str, OSError]) -> None:
        """Put loggers before those that are there.

        Args:
            refused: the names of further ones that could not be built, and why.
        """
        self._loggers[:0] = loggers
        for name, error in refused.items():
            self._count(name)
            self.message(f"logger {name} could not be built and is left out: {type(error).__name__}: {error}")

    def write(self, record: EpochRecord) -> None:
        """One epoch to every logger, each with statistics of its own: what one does to them no other one sees."""
        self._call("write", lambda: _own(record))

    def progress(self, progress: Progress) -> None:
        """A sign of life; those of one phase are passed on at most ten times a second."""
        now = time.monotonic()
        if now - self._passed_on.get(progress.phase, -math.inf) < _PROGRESS_INTERVAL_SECONDS:
            return
        self._passed_on[progress.phase] = now
        self._call("progress", lambda: progress)

    def networks(self, graphs: Mapping[str, NetworkGraph]) -> None:
        """What is going to be trained, to every logger that shows it; one that cannot goes on without."""
        self._call("networks", lambda: dict(graphs), leave_out=False)

    def message(self, text: str) -> None:
        """A line for the user, kept in `log.txt` too."""
        self.note(text)
        self._call("message", lambda: text)

    def warning(self, text: str) -> None:
        """The same of what Python has shown on standard error already, for loggers that do not show messages there."""
        self.note_warning(text)
        self._call("message", lambda: f"{_WARNING}{text}", on_stderr=False)

    def note_warning(self, text: str) -> None:
        """The same for `log.txt` only."""
        self.note(f"{_WARNING}{text}")

    def note(self, text: str) -> None:
        """A line for `log.txt` only."""
        if self._log_file is None:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            with open(self._log_file, "a", encoding="utf-8") as file:
                file.write(f"{stamp} {text}\n")
        except OSError:
            self._count("log.txt")

    def close(self, outcome: Outcome) -> None:
        """The end of the run; a warning where loggers failed, for none that is left may show what was said."""
        if self.failures:
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self.failures.items()))
            self.note(f"logger failures: {counts}")
        self._call("close", lambda: outcome)
        if self.failures:
            names = ", ".join(sorted(self.failures))
            where = "" if self._log_file is None or "log.txt" in self.failures else f"; see {self._log_file}"
            warnings.warn(f"records of the run are incomplete: {names} failed{where}", MazeWarning, stacklevel=2)

    def _call(
        self, method: str, argument: Callable[[], Any], *, leave_out: bool = True, on_stderr: bool = True
    ) -> None:
        for logger in list(self._loggers):
            function = getattr(logger, method, None)
            if function is None or (not on_stderr and getattr(logger, "is_on_stderr", False)):
                continue
            try:
                function(argument())
            except (Exception, SystemExit) as error:
                self._count(type(logger).__name__)
                if leave_out:
                    self._loggers.remove(logger)
                consequence = " and is left out from here on" if leave_out else ""
                reason = f"{type(error).__name__}: {error}"
                self.message(f"logger {type(logger).__name__} failed in {method}{consequence}: {reason}")

    def _count(self, name: str) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1


def _own(record: EpochRecord) -> EpochRecord:
    """The same with tables of its own; arrays are not copied and cannot be written to."""
    return attrs.evolve(record, train=_read_only(record.train), evaluation=_read_only(record.evaluation))


def _read_only(statistics: Mapping[str, Any]) -> dict[str, Any]:
    own = {tag: value.view() if isinstance(value, np.ndarray) else value for tag, value in statistics.items()}
    for value in own.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return own
