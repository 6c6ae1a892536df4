"""Answers of calls that may run twice, because they depend on nothing but their arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from maze_kernel.contracts.workers import Future
from maze_kernel.errors import MazeWarning, WorkerError


def result_or_again(future: Future, call: Callable[[], Future]) -> Any:
    """The answer; a call that a dying actor took with it is made again on its replacement, if the pool gives one,
    and a `MazeWarning` says so.

    Args:
        future: of the call.
        call: makes it once more.

    Raises:
        WorkerError: nobody is left to answer, or the actor raised.
        MazeError: the actor raised this very error.
    """
    while True:
        try:
            return future.result()
        except WorkerError as error:
            if not error.is_lost:
                raise
            future = call()
            if future.done():
                future.result()  # raises where nobody is left to answer; else the replacement was quick
            warnings.warn(f"{error.what}; its replacement begins that again", MazeWarning, stacklevel=2)
