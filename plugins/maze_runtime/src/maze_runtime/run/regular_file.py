"""Reads files of folders that may come from anybody: a pipe in place of one would be waited for without end."""

from __future__ import annotations

import stat
from pathlib import Path


def read_regular(file: Path) -> bytes:
    """All of a file.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(f"{file} is no regular file")
    return file.read_bytes()
