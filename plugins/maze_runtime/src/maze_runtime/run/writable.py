"""Files and folders that the user named: whether they can be written to, which is asked before there is any work."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maze_kernel.errors import RequestError

_MODE = os.W_OK | os.X_OK


def require_writable(folder: Path, what: str, *, help: str) -> None:
    """Refuse a folder that nothing can be written into; one that is missing would be made.

    Args:
        folder: absolute.
        what: is to be written.
        help: one next step.

    Raises:
        RequestError: the folder, or the nearest one above it that exists, is none, or may not be written to.
    """
    place = _existing(folder)
    if not place.is_dir():
        raise RequestError(
            f"{what} cannot be written to {folder}", received=f"{place} is no folder", expected="a folder", help=help
        )
    if not os.access(place, _MODE, effective_ids=os.access in os.supports_effective_ids):
        raise RequestError(
            f"{what} cannot be written to {folder}",
            received=_permissions(place),
            expected="a folder that this process may write to",
            help=help,
        )


@contextmanager
def writing(file: Path, what: str, *, help: str = "name another file") -> Iterator[None]:
    """Make the folder of a file that is written inside.

    Args:
        file, what, help: as of `require_writable`; the file may be relative.

    Raises:
        RequestError: as `require_writable`, or an OSError was raised inside.
    """
    require_writable(file.absolute().parent, what, help=help)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise RequestError(f"{what} cannot be written to {file}: {error}", help=help) from error


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there and may be looked at."""
    for place in (folder, *folder.parents):
        try:
            place.lstat()
        except OSError:
            continue
        return place
    return folder


def _permissions(place: Path) -> str:
    try:
        if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
            return f"{place} is on a file system that is mounted read-only"
        found = place.stat()
    except OSError as error:
        return f"{place}: {error.strerror}"
    user = f"; this process is of user {os.geteuid()}" if hasattr(os, "geteuid") else ""
    return f"{place} is {stat.filemode(found.st_mode)} and belongs to user {found.st_uid}{user}"
