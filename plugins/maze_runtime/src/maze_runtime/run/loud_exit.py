"""`os._exit` in an environment ends this process in the middle of everything; here it says so first.

It skips every `finally` and every exit handler, so the only place to say anything is the call itself. What native code
does with the C function of that name is not seen; a worker pool finds it, from another process.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from maze_kernel.errors import EXIT_FAILED, EnvError


@contextmanager
def loud_exit() -> Iterator[None]:
    """While entered, `os._exit` shows who called it, and 0 becomes the exit code of a failure.

    Forked children, which end by that call, and other processes are left alone.
    """
    exit_at_once, process_id = os._exit, os.getpid()
    if hasattr(exit_at_once, "is_loud"):
        yield
        return

    def say_and_exit(status: int) -> NoReturn:
        if os.getpid() != process_id:
            exit_at_once(status)
        with suppress(Exception):
            _say(status)
        exit_at_once(status or EXIT_FAILED)

    say_and_exit.is_loud = True  # type: ignore[attr-defined]
    os._exit = say_and_exit
    try:
        yield
    finally:
        os._exit = exit_at_once


def _say(status: int) -> None:
    stack = traceback.extract_stack()[-10:-2]
    error = EnvError(
        f"the process was ended by os._exit({status})",
        owner=f"{stack[-1].filename}:{stack[-1].lineno}",
        help="raise an exception there; with a [workers] table only a worker would have ended",
    )
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(stack), f"\n{error.render()}\n"]
    sys.stdout.flush()
    sys.stderr.write("".join(lines))
    sys.stderr.flush()
