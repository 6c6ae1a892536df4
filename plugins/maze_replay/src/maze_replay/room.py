"""Whether a replay buffer fits into memory.

Its arrays take memory as they are filled, so one that is too large is made without complaint, and the system ends the
run hours later. That is said before anything is learnt.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from maze_kernel.errors import MazeWarning, RequestError

_GIB = 2**30
_PART = 0.8
"""Of what is free; the rest is for networks, environments and the next checkpoint."""
_MEMINFO = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes that this process may still take: of the machine, and of its container; None where nothing says it."""
    known = [own for own in (_of_machine(), _of_container()) if own is not None]
    return min(known) if known else None


@contextlib.contextmanager
def room_for(n_rows: int) -> Iterator[None]:
    """What is built inside are buffers of so many transitions.

    Raises:
        RequestError: the system refuses them at once.
    """
    try:
        yield
    except MemoryError as error:
        free = free_memory()
        raise RequestError(
            "the replay buffer does not fit into memory",
            received=f"trainer.replay_buffer_size = {n_rows}: {error}",
            expected=None if free is None else f"at most the {free / _GIB:.1f} GiB that are free",
            owner="maze-replay",
            help="make trainer.replay_buffer_size or the observations smaller",
        ) from error


def warn_of_too_little(n_bytes: int, n_rows: int) -> None:
    """Warn where buffers of so many bytes and transitions will not fit once they are full."""
    free = free_memory()
    if free is None or n_bytes <= free:
        return
    fitting = _rounded_down(n_rows * _PART * free / n_bytes)
    warnings.warn(
        f"the replay buffer will take {n_bytes / _GIB:.1f} GiB once its {n_rows} transitions are there, and "
        f"{free / _GIB:.1f} GiB are free: the system will end a run that fills it; "
        f"trainer.replay_buffer_size = {fitting} fits",
        MazeWarning,
        stacklevel=2,
    )


def _rounded_down(number: float) -> int:
    """With one digit that is not 0; 1 at least."""
    unit: int = 10 ** max(0, len(str(int(number))) - 1)
    return max(1, int(number) // unit * unit)


def _of_machine() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_container() -> int | None:
    try:
        most, used, parts = (
            (_CONTAINER / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current", "stat")
        )
        sizes = dict(line.split() for line in parts.splitlines())
        of_files = sum(int(sizes.get(f"{kind}_file", 0)) for kind in ("active", "inactive"))  # given up when needed
        return max(0, int(most) - int(used) + of_files)
    except (OSError, ValueError):  # no container, or "max"
        return None
