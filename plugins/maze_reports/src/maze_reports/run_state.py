"""Whether a run is done, and how it ended: read from its `log.txt`, and from when it last wrote something."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import attrs

from maze_runtime.run.log_reading import last_note

ENDS = ("done", "stopped early", "interrupted", "failed")
"""What the note that ends a run begins with."""
FINISHED = ("done", "stopped early")
"""Of these the ones of runs that were trained to their end."""
STATES = ("running", *ENDS)
QUIET_SECONDS = 600.0
"""A run that has written nothing for so long, and for `QUIET_EPOCHS` epochs, no longer runs."""
QUIET_EPOCHS = 3.0


@attrs.frozen(kw_only=True)
class RunState:
    """How a run stands.

    Attributes:
        name: one of `STATES`.
        reason: in the words of the run's log; empty while it runs.
    """

    name: str
    reason: str = ""


def run_state(run: Path, seconds_an_epoch: float = 0.0) -> RunState:
    """How a run stands.

    One that was killed had no chance to say so. It counts as running as long as it may be within an epoch.

    Args:
        run: a run directory.
        seconds_an_epoch: of the epochs done so far; 0: there are none.
    """
    note = last_note(run)
    name, _, reason = note.partition(": ")
    if name in ENDS:
        return RunState(name=name, reason=reason)
    quiet = time.time() - _last_written(run)
    if quiet > max(QUIET_SECONDS, QUIET_EPOCHS * seconds_an_epoch):
        return RunState(name="interrupted", reason=f"it ended without a word; nothing was written for {_span(quiet)}")
    return RunState(name="running")


def _last_written(run: Path) -> float:
    """Seconds since 1970 at which a file of the run changed; one that is gone by now is passed over."""
    times = [0.0]
    for file in [*run.glob("*.*"), *run.glob("*/*")]:
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)


def _span(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("hours", 3600.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"
