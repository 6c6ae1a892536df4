"""The few functions through which run files reach the disk, so that tests can fail or record each of them.

A file is written whole to a temporary name, flushed to the disk and renamed; a reader never sees half of one.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEMPORARY_PREFIX = ".tmp-"
"""Names that start like this are left-overs of a crash and are removed on the next start."""


class Storage:
    """Durable operations on a local file system."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents."""
        path.mkdir(parents=True, exist_ok=True)

    def write_bytes(self, path: Path, data: bytes) -> None:
        """Write a file and flush it to the disk."""
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Move within one file system, replacing a file (not a directory) at the target."""
        os.replace(source, target)

    def sync_directory(self, path: Path) -> None:
        """Flush a directory's entries, so that a rename in it survives a power cut."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def symlink(self, path: Path, target: str) -> None:
        """Make `path` a symbolic link to a name beside it."""
        os.symlink(target, path)

    def remove(self, path: Path) -> None:
        """Remove a file, a link or a whole directory."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def keep_copy(path: Path, name: str) -> str:
    """Copy a file to a name beside it, with a number behind where that is taken; the name it got."""
    names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
    kept = next(name for name in names if not path.with_name(name).exists())
    shutil.copy2(path, path.with_name(kept))
    return kept


def replace_file(storage: Storage, path: Path, data: bytes) -> None:
    """Write a file so that it is either the old one or the new one at every moment."""
    replace_files(storage, {path: data})


def replace_files(storage: Storage, contents: Mapping[Path, bytes]) -> None:
    """`replace_file` of several, in this order; none is replaced before all of them are on the disk."""
    temporary = {path: path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}") for path in contents}
    try:
        for path, data in contents.items():
            storage.write_bytes(temporary[path], data)
        for path, written in temporary.items():
            storage.rename(written, path)
    except OSError:
        for written in temporary.values():
            written.unlink(missing_ok=True)
        raise
    for folder in dict.fromkeys(path.parent for path in contents):
        storage.sync_directory(folder)


def replace_json(storage: Storage, path: Path, data: Mapping[str, Any]) -> None:
    """`replace_file` with indented JSON."""
    replace_file(storage, path, encode_json(data))


def encode_json(data: Mapping[str, Any]) -> bytes:
    """Indented JSON as bytes."""
    return (json.dumps(data, indent=2) + "\n").encode()


def point_to(storage: Storage, link: Path, target: str) -> None:
    """Make a symbolic link point to a name beside it, atomically."""
    temporary = link.with_name(f"{TEMPORARY_PREFIX}{link.name}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        storage.symlink(temporary, target)
        if link.is_dir() and not link.is_symlink():  # a copy that was made where there are no links
            storage.remove(link)
        storage.rename(temporary, link)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> list[str]:
    """Remove what a crash left behind under a temporary name; returns the names."""
    if not folder.is_dir():
        return []
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(TEMPORARY_PREFIX))
    for name in names:
        Storage().remove(folder / name)
    return names
