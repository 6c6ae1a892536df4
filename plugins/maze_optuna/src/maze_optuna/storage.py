"""Where a study is kept: a SQLite file or a journal in the folder of the sweep, or a database of the user.

One process writes to the files: the driver of the sweep. What a killed one leaves behind is cleared away.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from maze_kernel.errors import MazeError, RequestError
from maze_kernel.shown_command import shown_command

_FILES = {"sqlite": "study.db", "journal": "study.journal"}
_LOCK_SECONDS = 2.0
_BUSY_SECONDS = 60.0


@attrs.frozen(kw_only=True)
class StudyStorage:
    """An open storage.

    Attributes:
        shown: what it is, for messages; no password.
        is_own: whether it holds the study of one sweep alone.
    """

    backend: BaseStorage
    shown: str
    is_own: bool

    def close(self) -> None:
        """Give up connections; everything is stored already."""
        if isinstance(self.backend, RDBStorage):
            self.backend.remove_session()
            self.backend.engine.dispose()


def open_storage(storage: str, folder: Path) -> StudyStorage:
    """The storage of the option of that name.

    Args:
        storage: "sqlite", "journal" or a URL.
        folder: of the sweep.

    Raises:
        RequestError: it cannot be opened.
    """
    name = _FILES.get(storage)
    shown = str(folder / name) if name else without_password(storage)
    try:
        if storage == "journal":
            backend: BaseStorage = _journal(folder / _FILES["journal"])
        else:
            url = _sqlite_url(folder / name) if name else storage
            waiting = {"connect_args": {"timeout": _BUSY_SECONDS}} if url.startswith("sqlite") else {}
            backend = RDBStorage(url, engine_kwargs=waiting)
    except MazeError:
        raise
    except Exception as error:  # any driver of a database raises its own
        raise RequestError(
            "the storage of the study cannot be opened",
            option="storage",
            received=f"{shown}: {type(error).__name__}: {_first_line(error, storage)}",
            owner="searcher 'optuna'",
            help="move the file away to build it anew from the trials of the sweep"
            if name
            else "check the URL, that the database answers, and that the Python package of its driver is installed",
        ) from None
    return StudyStorage(backend=backend, shown=shown, is_own=name is not None)


def memory_storage() -> StudyStorage:
    """A storage that nothing is left of."""
    return StudyStorage(backend=InMemoryStorage(), shown="memory", is_own=True)


@contextmanager
def storing(number: int, storage: str, folder: Path) -> Iterator[None]:
    """Read and write what the study knows of a trial.

    Args:
        number: of the trial.
        storage: the option of that name.
        folder: of the sweep.

    Raises:
        MazeError: the storage failed: its disk is full, or the database does not answer.
    """
    try:
        yield
    except (StorageInternalError, SQLAlchemyError, OSError) as error:
        name = _FILES.get(storage)
        cause = error.__cause__ or error  # Optuna's own text guesses
        go_on = shown_command("maze", "sweep", "--resume", folder)
        raise MazeError(
            f"trial {number} could not be stored in {folder / name if name else without_password(storage)}",
            received=f"{type(cause).__name__}: {_first_line(cause, storage)}",
            owner="searcher 'optuna'",
            help=("free some disk space" if name else "see to the database")
            + f", then go on with: {go_on}; nothing that was trained is lost",
        ) from None


def without_password(url: str) -> str:
    """A URL as it may be shown.

    >>> without_password("postgresql://me:secret@host/optuna")
    'postgresql://me:***@host/optuna'
    """
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)


def _first_line(error: BaseException, url: str) -> str:
    line = (str(error).splitlines() or [""])[0].replace(url, without_password(url))
    password = re.search(r"://[^:/@]*:(.*)@", url)
    return line.replace(password[1], "***") if password and password[1] else line


def _sqlite_url(path: Path) -> str:
    """Folders may have `?` and `%` in their names, which mean something in a URL, and braces, which Optuna fills in."""
    url = URL.create("sqlite", database=str(path.absolute())).render_as_string(hide_password=False)
    return url.replace("{", "{{").replace("}", "}}")


def _journal(path: Path) -> JournalStorage:
    _clear_lock(path.with_name(path.name + ".lock"))
    _cut_unfinished_line(path)
    return JournalStorage(JournalFileBackend(str(path.absolute())))


def _clear_lock(lock: Path) -> None:
    """Remove a lock that nobody gives back: Optuna holds one for milliseconds, and would wait 30 s for a dead one."""
    before = _identity(lock)
    end = time.monotonic() + _LOCK_SECONDS
    while before is not None and time.monotonic() < end:
        time.sleep(0.02)
        if _identity(lock) != before:
            return
    if before is not None:
        lock.unlink(missing_ok=True)
    for left in lock.parent.glob(f"{lock.name}*.rename"):
        left.unlink(missing_ok=True)


def _identity(lock: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(lock)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _cut_unfinished_line(path: Path) -> None:
    """A line that a crash cut short would make the next one unreadable, and all after it."""
    if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
