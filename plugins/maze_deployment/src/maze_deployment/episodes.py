"""Episodes as a deployed agent is told of them: the running one is counted, those that ended are kept."""

from __future__ import annotations

import contextlib
from collections import deque

import attrs

from maze_kernel.contracts.capabilities import ReportsStatistics
from maze_kernel.contracts.events import EpisodeStatistics
from maze_runtime.env.outside import Reply

MAX_KEPT = 10_000
"""Ended episodes that wait for somebody to ask for them."""


@attrs.frozen(kw_only=True)
class DeployedEpisode:
    """An episode as the agent was told of it.

    Attributes:
        total_reward: sum of the rewards it was given.
        length: flat steps.
        terminated, truncated: how it ended.
        events: statistics of its events, those of each part where a wrapper, `time-limit` for one, ended episodes for
            the agent in between; None where the environment reports none.
    """

    total_reward: float
    length: int
    terminated: bool
    truncated: bool
    events: EpisodeStatistics | None = attrs.field(default=None, repr=False)


class EpisodeTally:
    """Counts the running episode; its first reply counts nothing, for nothing was decided before it.

    Args:
        statistics: keeps the event statistics of the environment; None: there are none.

    Attributes:
        waits_for_result: an action was given, so the next reply says what came of it.
    """

    def __init__(self, statistics: ReportsStatistics | None) -> None:
        self._statistics = statistics
        self._ended: deque[DeployedEpisode] = deque(maxlen=MAX_KEPT)
        self._begin()

    def forget(self) -> None:
        """The running episode is no more, and neither are parts of it that a wrapper ended."""
        self._drained()
        self._begin()

    def _begin(self) -> None:
        self.waits_for_result = False
        self._total_reward, self._length = 0.0, 0

    def add(self, reply: Reply) -> None:
        """Count what came of the last action."""
        if self.waits_for_result:
            self._total_reward += reply.reward
            self._length += reply.flat_step_end or reply.ends_episode

    def end(self, reply: Reply) -> None:
        """Keep the episode that ended with this reply."""
        drained = self._drained()
        self._ended.append(
            DeployedEpisode(
                total_reward=self._total_reward,
                length=self._length,
                terminated=reply.terminated,
                truncated=reply.truncated,
                events=[event for part in drained for event in part] if drained else None,
            )
        )
        self._begin()

    def _drained(self) -> list[EpisodeStatistics]:
        return [] if self._statistics is None else self._statistics.drain_statistics()

    def drain(self) -> list[DeployedEpisode]:
        """The newest `MAX_KEPT` episodes that ended since the last call."""
        ended = []
        with contextlib.suppress(IndexError):  # of the last one; another thread may append to them, or take some
            while True:
                ended.append(self._ended.popleft())
        return ended
