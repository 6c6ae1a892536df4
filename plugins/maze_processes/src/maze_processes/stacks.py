"""What a worker that hung or crashed leaves behind: the stacks of its threads, and its exit code in words."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from maze_processes.shared_memory import create_descriptor

_SECONDS = 1.0
_PLUMBING = re.compile(rf"{re.escape(os.path.dirname(__file__))}|File \"<string>\"|^Extension modules:")


class ThreadStacks:
    """Memory where a worker writes the stacks of its threads; there is none before `open`."""

    def __init__(self) -> None:
        self._descriptor = -1

    def open(self) -> int:
        """Memory for a new worker; returns a descriptor to hand to it."""
        self._descriptor = create_descriptor("maze-stacks")
        return self._descriptor

    def text(self) -> str:
        """What is there, without the lines of this package."""
        size = os.fstat(self._descriptor).st_size
        text = os.pread(self._descriptor, min(size, 100_000), 0).decode(errors="replace")
        return "\n".join(line for line in text.splitlines() if not _PLUMBING.search(line)).strip()

    def wait(self) -> str:
        """The text of a worker that was told to write it, once it is complete; what there is after a second."""
        text = ""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            time.sleep(0.03)
            previous, text = text, self.text()
            if text and text == previous:
                break
        return text

    def close(self) -> None:
        """Let go of the memory."""
        os.close(self._descriptor)
        self._descriptor = -1


def how_it_ended(code: int | None) -> str:
    """The end of a sentence that begins with the worker; of an exit code, or None where there is none."""
    if code is None:
        return "ended without a trace"
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
