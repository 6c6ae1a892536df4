"""Where the time of an epoch goes: wall seconds by what they were spent on, and what was done in them."""

from __future__ import annotations

import time


class EpochTimer:
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

    def statistics(self, *, compile_seconds: float, **counts: float) -> dict[str, float]:
        """The epoch's `Timing/` statistics: seconds by name, and what was done a second.

        Args:
            compile_seconds: of these, spent on compiling; in the rates they do not count.
            counts: what was done, by its name in the plural: `env_steps=200` becomes `Timing/env_steps_per_second`.
        """
        busy = max(1e-9, sum(self.seconds.values()) - compile_seconds)
        return {
            **{f"Timing/{name}": seconds for name, seconds in self.seconds.items()},
            **{f"Timing/{name}_per_second": count / busy for name, count in counts.items()},
            "Timing/compile_seconds": compile_seconds,
        }
