"""Answers of calls that may run twice, because they depend on nothing but their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maze_kernel.contracts.workers import Future
from maze_kernel.errors import WorkerError


def result_or_again(future: Future, call: Callable[[], Future]) -> Any:
    """The answer; a call that a dying actor took with it is made again on its replacement, if the pool gives one.

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
            if future.done():  # nobody is left to answer; or the replacement was quick
                return future.result()
