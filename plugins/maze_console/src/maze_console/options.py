"""Options of the `console` logger."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, at_least, between


@attrs.frozen(kw_only=True)
class ConsoleOptions:
    """The `[[loggers]] use = "console"` table."""

    live: bool = True
    """Show a live view where standard error is a terminal; false: one line an epoch."""
    table: bool = False
    """Print a table of all statistics each epoch, as `-v` does."""
    refresh_per_second: int = attrs.field(default=4, validator=between(1, 20))
    """Redraws of the live view a second, in each phase of an epoch."""
    plain_interval_seconds: float = attrs.field(default=1.0, validator=at_least(0))
    """Shortest time between two plain lines; epochs in between are left out, best and last ones never."""
    progress_interval_seconds: float = attrs.field(default=10.0, validator=above(0))
    """Time after which a plain line tells how far an epoch is that takes longer."""
