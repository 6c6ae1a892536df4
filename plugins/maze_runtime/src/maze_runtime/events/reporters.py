"""Who reports event statistics of an environment: every one of the wrappers around it that does, and itself."""

from __future__ import annotations

from functools import reduce
from typing import Any

from maze_kernel.contracts.capabilities import ReportsStatistics, capability
from maze_kernel.contracts.events import EpisodeStatistics
from maze_runtime.events.aggregation import joined_episodes


def reporter_of(env: Any) -> ReportsStatistics | None:
    """What reports the episodes of an environment inside its wrappers; None where nobody does."""
    found: list[ReportsStatistics] = []
    current: Any = env
    while (reporter := capability(current, ReportsStatistics)) is not None:  # type: ignore[type-abstract]
        found.append(reporter)
        current = getattr(reporter, "env", None)
    return JoinedReporters(found) if len(found) > 1 else next(iter(found), None)


class JoinedReporters:
    """Implements `ReportsStatistics`: what several report of an episode stands together.

    A reporter that asks those inside of it by itself has their episodes already; they have none left then.

    Args:
        reporters: the outermost first.
    """

    def __init__(self, reporters: list[ReportsStatistics]) -> None:
        self._reporters = reporters

    def drain_statistics(self) -> list[EpisodeStatistics]:
        """The episodes that ended since the last call, inner events first."""
        drained = [reporter.drain_statistics() for reporter in self._reporters]
        return reduce(joined_episodes, reversed(drained))

    def discard_episode(self) -> None:
        """Let all of them forget the unfinished episode."""
        for reporter in self._reporters:
            reporter.discard_episode()
