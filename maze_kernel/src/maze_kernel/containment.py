"""Running a plugin's code so that what it does on the side stays there.

`contained()` keeps standard output clean and puts back the working directory and the random states. It catches
no exception; the loader does.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

Restore = Callable[[], str | None]
"""Puts something back; returns what had been changed, or None."""

_ONE_AT_A_TIME = threading.RLock()  # standard output is the process's: a second thread would save what diverts it


@contextlib.contextmanager
def contained() -> Iterator[list[str]]:
    """Run a block of foreign code in containment.

    Yields:
        A list that holds, once the block is left, one note a side effect that was undone.
    """
    notes: list[str] = []
    with _ONE_AT_A_TIME, _captured_output() as printed:
        restores = [_watch_directory(), _watch_random(), _watch_numpy(), _watch_torch()]
        try:
            yield notes
        finally:
            notes += [note for note in (restore() for restore in restores) if note]
    if lines := printed().strip().splitlines():
        first = lines[0] if len(lines[0]) <= 60 else lines[0][:57] + "..."
        notes.append(f"printed {len(lines)} line{'s' if len(lines) > 1 else ''} while loading: {first!r}")


@contextlib.contextmanager
def _captured_output() -> Iterator[Callable[[], str]]:
    """Divert standard output, both Python's stream and the process's file descriptor."""
    stream = io.StringIO()
    written = b""
    with tempfile.TemporaryFile() as file, contextlib.redirect_stdout(stream):
        saved = _divert(file.fileno())
        try:
            yield lambda: stream.getvalue() + written.decode(errors="replace")
        finally:
            if saved is not None:
                os.dup2(saved, 1)
                os.close(saved)
            file.seek(0)
            written = file.read()


def _divert(descriptor: int) -> int | None:
    with contextlib.suppress(Exception):
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    try:
        saved = os.dup(1)
    except OSError:  # standard output is closed
        return None
    os.dup2(descriptor, 1)
    return saved


def _watch_directory() -> Restore:
    try:
        before = os.getcwd()
    except OSError:  # the working directory was deleted
        return lambda: None

    def restore() -> str | None:
        with contextlib.suppress(OSError):
            if os.getcwd() == before:
                return None
        with contextlib.suppress(OSError):
            os.chdir(before)
        return "changed the working directory (put back)"

    return restore


def _watch_random() -> Restore:
    before = random.getstate()

    def restore() -> str | None:
        if random.getstate() == before:
            return None
        random.setstate(before)
        return "changed the state of `random` (put back)"

    return restore


def _watch_numpy() -> Restore:
    numpy = sys.modules.get("numpy")
    before: Any = None if numpy is None else numpy.random.get_state(legacy=False)

    def restore() -> str | None:
        loaded = sys.modules.get("numpy")
        if before is None:
            if hasattr(loaded, "random"):
                loaded.random.seed()  # type: ignore[union-attr]
            return None
        now = loaded.random.get_state(legacy=False)  # type: ignore[union-attr]
        if _same_numpy_state(now, before):
            return None
        loaded.random.set_state(before)  # type: ignore[union-attr]
        return "changed the state of `numpy.random` (put back)"

    return restore


def _same_numpy_state(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same_numpy_state(one[key], other[key]) for key in one)
    if hasattr(one, "tobytes"):
        return bool(one.tobytes() == other.tobytes())
    return bool(one == other)


def _watch_torch() -> Restore:
    torch = sys.modules.get("torch")
    before: Any = torch.get_rng_state() if hasattr(torch, "get_rng_state") else None  # type: ignore[union-attr]

    def restore() -> str | None:
        if before is None or torch.equal(torch.get_rng_state(), before):  # type: ignore[union-attr]
            return None
        torch.set_rng_state(before)  # type: ignore[union-attr]
        return "changed torch's random state (put back)"

    return restore
