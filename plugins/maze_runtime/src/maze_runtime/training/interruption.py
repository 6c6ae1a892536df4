"""Signals: the first one asks the loop to stop after the running update, the second one leaves at once.

While there is no loop yet, the first one leaves.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LeaveEpoch(BaseException):
    """Raised between two updates of an epoch that a signal cuts short; the loop goes back to its beginning."""


@contextmanager
def any_signal_interrupts() -> Iterator[None]:
    """While a run is built, SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does: what was begun is undone.

    Does nothing outside the main thread, nor to a signal that somebody handles or ignores.
    """
    in_main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in _SIGNALS if in_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


class Interruption:
    """Catches SIGINT, SIGTERM and SIGHUP while it is entered; does nothing outside the main thread.

    Args:
        silent: print nothing when a signal arrives.

    Attributes:
        received: name of the first signal, None before.
        finishing: what is brought to its end before the run stops.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.received: str | None = None
        self.finishing = "this epoch"
        self._silent = silent
        self._may_leave = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def epoch(self, *, may_leave: bool) -> Iterator[None]:
        """While an epoch runs, which `check` may leave if the state at its beginning is still there."""
        self.finishing, self._may_leave = "this update" if may_leave else "this epoch", may_leave
        try:
            yield
        finally:
            self.finishing, self._may_leave = "the evaluation", False

    def check(self) -> None:
        """Called between updates.

        Raises:
            LeaveEpoch: a signal came, and the epoch may be left.
        """
        if self._may_leave and self.received is not None:
            raise LeaveEpoch

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
        if not self._silent:
            _print(f"{self.received}: finishing {self.finishing}, press Ctrl-C again to stop now")


def ignore_ctrl_c() -> None:
    """For a process that ends because of a signal: one more would only show where in its end it came."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _print(line: str) -> None:
    """To standard error, which a live view shows above itself."""
    try:
        print(line, file=sys.stderr, flush=True)
    except RuntimeError:  # the signal came in the middle of another line
        os.write(2, f"\n{line}\n".encode())
    except OSError:
        return  # a terminal that was closed reads nothing
