"""Where the time of an epoch goes: wall seconds by what they were spent on."""

from __future__ import annotations

import time


class Stopwatch:
    """Adds up wall time by name; runs from its construction on.

    Attributes:
        seconds: name to seconds so far.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Count the time since the last lap for `name`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
