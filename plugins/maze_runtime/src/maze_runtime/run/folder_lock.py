"""A lock on a folder, so that one process at a time trains there. Who only reads asks for none."""

from __future__ import annotations

import os
import socket
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from maze_kernel.errors import MazeWarning, RequestError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".maze-lock"
"""The file that is locked; it holds the process and the machine that did it, as long as they do."""


class FolderLock:
    """Held until `release`, or until its process ends, however that comes; processes forked from it do not hold it.

    Where the file system knows no locks, or has no room for the file, a warning says so. On Windows nothing is locked.

    Args:
        folder: is there.
        what: is trained in it, for the message: "run", "sweep".

    Raises:
        RequestError: another process holds it, or somebody else in this one.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self.folder = folder
        self._stream: TextIO | None = None
        if fcntl is None:
            return
        try:
            self._stream = (folder / LOCK).open("a+", encoding="utf-8")
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refused(what) from None
        except OSError as error:
            self._forget()
            told = f"{folder} cannot be locked ({error}): see to it that no other process trains there"
            warnings.warn(told, MazeWarning, stacklevel=2)
            return
        with suppress(OSError):  # on a full disk nobody learns who holds the lock
            os.truncate(self._stream.fileno(), 0)
            os.write(self._stream.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        _HELD.add(self)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others train there."""
        if self._stream is not None:
            with suppress(OSError):
                os.truncate(self._stream.fileno(), 0)
            fcntl.flock(self._stream, fcntl.LOCK_UN)
            self._forget()

    def _refused(self, what: str) -> RequestError:
        assert self._stream is not None
        self._stream.seek(0)
        holder = self._stream.read().strip()
        self._forget()
        return RequestError(
            f"the {what} in {self.folder} is being trained already",
            received=holder or "by an unknown process",
            help="wait until it ends, or stop it; what it has done is kept",
        )

    def _forget(self) -> None:
        """Close the file; the lock stays with the process that took it."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


_HELD: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock._forget()


if fcntl is not None:  # a child that outlives its parent would keep the folder locked
    os.register_at_fork(after_in_child=_forget_all)
