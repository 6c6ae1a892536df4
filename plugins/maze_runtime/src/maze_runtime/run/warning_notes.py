"""What is warned of while a run trains, as messages of the run: on standard error it is gone with the terminal."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from maze_kernel.errors import MazeWarning


class WarningNotes:
    """While it is entered, every `MazeWarning` that Python's filters let through is also handed over.

    It is shown, or recorded by `warnings.catch_warnings`, as without.

    Args:
        tell: takes the text; called in the thread that entered, by which loggers are called, too.
        note: takes the text in any other.
    """

    def __init__(self, tell: Callable[[str], None], note: Callable[[str], None]) -> None:
        self._tell, self._note = tell, note
        self._thread: int | None = None
        self._before = warnings.showwarning

    def close(self) -> None:
        """Hand nothing over any more; nothing happens where it is closed. Runs may end in another order than begun."""
        self._thread = None
        while isinstance(top := getattr(warnings.showwarning, "__self__", None), WarningNotes) and top._thread is None:
            warnings.showwarning = top._before

    def __enter__(self) -> WarningNotes:
        self._thread = threading.get_ident()
        self._before, warnings.showwarning = warnings.showwarning, self._see
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _see(self, message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        self._before(message, category, *place, **more)
        if self._thread is not None and issubclass(category, MazeWarning):
            hand_over = self._tell if threading.get_ident() == self._thread else self._note
            hand_over(str(message))
