"""One thread of a process trains: `random`, `numpy.random` and torch have one state a process, which training seeds."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from maze_kernel.errors import RequestError

_training: dict[int, tuple[int, object]] = {}
"""By process, as a fork copies this, the thread that trains, with a mark of its outermost call."""


@contextmanager
def trains_alone() -> Iterator[None]:
    """While entered, other threads of this process are refused; the same one may enter again.

    Raises:
        RequestError: another thread trains.
    """
    process, own = os.getpid(), (threading.get_ident(), object())
    held = _training.setdefault(process, own)  # atomic: of two threads that begin at once, one trains
    _refuse_beside(held)
    try:
        yield
    finally:
        if held is own:
            _training.pop(process, None)


def refuse_beside_training() -> None:
    """Let nothing draw from the random state of the process while another thread trains.

    Raises:
        RequestError: it does.
    """
    held = _training.get(os.getpid())
    if held is not None:
        _refuse_beside(held)


def _refuse_beside(held: tuple[int, object]) -> None:
    if held[0] != threading.get_ident():
        raise RequestError(
            "another thread of this process trains, and threads share one random state: numbers would follow no seed",
            received=f"a call from {threading.current_thread().name}",
            expected="one thread that trains, and none beside it that trains, plays or builds a model",
            help="train(seeds=[0, 1, 2]) trains at the same time in processes; give other experiments a process each",
        )
