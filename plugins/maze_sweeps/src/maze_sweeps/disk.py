"""What is said when a file of a sweep cannot be written: most of the time the disk is full, and the sweep can go on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maze_kernel.errors import MazeError
from maze_kernel.shown_command import shown_command

_FULL = tuple(f"[Errno {number}]" for number in (errno.ENOSPC, errno.EDQUOT))


@contextmanager
def writing(what: str, file: Path, folder: Path) -> Iterator[None]:
    """Write a file of a sweep.

    Args:
        what: the file holds.
        folder: of the sweep.

    Raises:
        MazeError: it could not be written; names it, and how to go on.
    """
    try:
        yield
    except OSError as error:
        raise cannot_be_written(f"{what} could not be written to {file}", folder, error) from error


def is_about_full_disk(error: MazeError) -> bool:
    """Whether a run failed because there was no space, or no more was allowed: that says nothing about its settings."""
    told = f"{error.what} {error.received} {error.remote_traceback}"
    return any(number in told for number in _FULL)


def cannot_be_written(what: str, folder: Path, error: Exception) -> MazeError:
    """The error that ends a sweep which can go on later.

    Args:
        folder: of the sweep.
    """
    told = error.what if isinstance(error, MazeError) else str(error)
    return MazeError(
        what,
        received=told,
        owner="maze-sweeps",
        help="free some disk space, then go on with: "
        f"{shown_command('maze', 'sweep', '--resume', folder)}; nothing that was trained is lost",
    )
