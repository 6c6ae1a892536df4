"""Hands a run to a tracker beside training: in a thread of its own, each epoch once, and never for longer than agreed.

`tracker.json` in the run directory says as what the run is known to each tracker and which epoch was logged last.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import attrs

from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome
from maze_kernel.errors import MazeError, PluginError
from maze_kernel.shown_command import shown_command
from maze_runtime.run.storage import Storage, replace_json
from maze_runtime.run.tracked_run import RunFacts, TrackedEpoch, best_model, missed_epochs, run_facts

FORMAT = 1
"""Version of `tracker.json`."""
_POLL_SECONDS = 0.05
_WRITING = threading.Lock()
"""The trackers of one run write the same file."""


class TrackerError(MazeError):
    """A tracker failed or did not answer; it is left out of the run."""


@attrs.frozen(kw_only=True)
class Opened:
    """A run as its tracker knows it.

    Attributes:
        epoch: the last one that it holds; None: it cannot say.
        url: where people find it.
    """

    epoch: int | None
    url: str = ""


class Tracker(Protocol):
    """One run at one tracker. All calls come from one thread, which is not that of training; they may raise."""

    def open(self, run: RunFacts, run_id: str) -> Opened:
        """Begin the run of this id, or go on with it, if the tracker has it."""
        ...

    def send(self, epoch: TrackedEpoch) -> None:
        """The statistics of the next epoch."""
        ...

    def finish(self, outcome: Outcome, model: Mapping[str, Path]) -> None:
        """The end: the outcome, and files of the best model by their names; none where it is not wanted."""
        ...


def require_package(logger: str, module: str, distribution: str) -> None:
    """Refuse to build a tracker's logger without the tracker's own package.

    Args:
        logger: the logger's name in an experiment.
        module: what it imports.
        distribution: what brings that module, as pip knows it.

    Raises:
        PluginError: names the logger and what to install.
    """
    found = find_spec(module)
    if found is None or found.origin is None:  # a mere folder of that name, such as W&B's own, has no origin
        raise PluginError(
            f"the logger {logger!r} needs the package {distribution}, which is not installed",
            help=f"pip install {distribution}, or take it out of [[loggers]]",
        )


class Tracking:
    """The logger of a tracker; those of plugins inherit from it and say which tracker it is.

    The tracker is opened with the first epoch. Epochs that it holds already, because the run was resumed before them,
    are skipped; those before the resume that it lacks are read from the files of the `csv` logger.

    Args:
        place: the tracker, and where in it, as text without secrets; another place is another run.
        timeout_seconds: longest time for one call of the tracker.
        upload_model: whether the best model goes to the tracker at the end.
    """

    def __init__(
        self, context: LoggerContext, tracker: Tracker, *, place: str, timeout_seconds: float, upload_model: bool
    ) -> None:
        self._run_dir = Path(context.run_dir)
        self._resumed_epoch = context.resumed_epoch
        self._tracker = tracker
        self._place = place
        self._timeout_seconds = timeout_seconds
        self._upload_model = upload_model
        self._entry: dict[str, Any] = {}
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy_since: float | None = None
        self._failure: Exception | None = None
        self._given_up = False

    def write(self, record: EpochRecord) -> None:
        """Queue an epoch; training waits for nothing.

        Raises:
            TrackerError: the tracker failed before, or has not answered for too long.
        """
        self._check()
        self._queue(partial(self._send, TrackedEpoch.of(record)))

    def close(self, outcome: Outcome) -> None:
        """Wait until everything is sent; a run of which nothing was ever trained is not told.

        Raises:
            TrackerError: as `write`.
        """
        if self._thread is None and self._resumed_epoch == 0:
            return
        self._queue(partial(self._finish, outcome))
        self._jobs.put(None)
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_POLL_SECONDS)
            self._check()
        self._check()

    def _check(self) -> None:
        failure, busy_since = self._failure, self._busy_since
        if failure is not None:
            reason = f"{type(failure).__name__}: {failure}".partition("\n")[0][:300]
            raise self._error(f"failed: {reason}") from failure
        if busy_since is not None and time.monotonic() - busy_since > self._timeout_seconds:
            self._given_up = True
            raise self._error(f"has not answered for {self._timeout_seconds:g} seconds")

    def _error(self, what: str) -> TrackerError:
        return TrackerError(
            f"{self._place} {what}",
            help="what it lacks can be sent when it is there again, with: "
            + shown_command("maze", "train", "--resume", self._run_dir),
        )

    def _queue(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._jobs.put(self._open)
            self._thread = threading.Thread(target=self._work, name=self._place, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._busy_since = time.monotonic()
            try:
                job()
            except Exception as error:
                self._failure = error
            self._busy_since = None
            if self._failure is not None or self._given_up:
                return

    def _open(self) -> None:
        self._entry = _read_entry(self._run_dir, self._place) or {"id": secrets.token_hex(8), "epoch": 0}
        self._note(Storage())  # before the tracker knows it: a crash in between leaves no run without a name
        run = run_facts(self._run_dir)
        opened = self._tracker.open(run, self._entry["id"])
        epoch = self._entry["epoch"] if opened.epoch is None else opened.epoch
        self._note(epoch=epoch, url=opened.url)
        for missed in missed_epochs(run, epoch, self._resumed_epoch):
            self._send(missed)

    def _send(self, epoch: TrackedEpoch) -> None:
        if epoch.epoch <= self._entry["epoch"] or self._given_up:
            return
        self._busy_since = time.monotonic()
        self._tracker.send(epoch)
        self._note(epoch=epoch.epoch)

    def _finish(self, outcome: Outcome) -> None:
        self._tracker.finish(outcome, best_model(self._run_dir) if self._upload_model else {})

    def _note(self, storage: Storage | None = None, **changes: Any) -> None:
        self._entry |= changes
        with _WRITING:
            entries = {**_read_entries(self._run_dir), self._place: self._entry}
            path = self._run_dir / "tracker.json"
            replace_json(storage or _Unflushed(), path, {"format": FORMAT, "runs": entries})


class _Unflushed(Storage):
    """Waits for no disk: an epoch is noted after each, and what a power cut takes the tracker still knows."""

    def write_bytes(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)

    def sync_directory(self, path: Path) -> None:
        pass


def _read_entry(run_dir: Path, place: str) -> dict[str, Any] | None:
    found = _read_entries(run_dir).get(place)
    return dict(found) if found else None


def _read_entries(run_dir: Path) -> dict[str, Any]:
    path = run_dir / "tracker.json"
    if not path.exists():
        return {}
    content = json.loads(path.read_bytes())
    if content["format"] != FORMAT:
        raise TrackerError(f"{path} has format {content['format']}, this Maze reads format {FORMAT}")
    return dict(content["runs"])
