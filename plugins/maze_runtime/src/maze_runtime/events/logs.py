"""Every event of an episode, kept for KPIs and log files."""

from __future__ import annotations

import itertools

import attrs

from maze_kernel.contracts.events import EventMethod, EventRecord


@attrs.define(slots=True)
class EpisodeEventLog:
    """The events of one episode; those of `reset` belong to the first step.

    Attributes:
        records: of all steps, in the order they were fired.
        ends: for each environment step how many records there are up to its end; its length is the episode's.
    """

    records: list[EventRecord] = attrs.field(factory=list)
    ends: list[int] = attrs.field(factory=list)

    @property
    def steps(self) -> list[list[EventRecord]]:
        """The records of each environment step."""
        return [self.records[first:last] for first, last in itertools.pairwise([0, *self.ends])]

    def query_events(self, *events: EventMethod) -> list[EventRecord]:
        """All records of these events, in the order they were fired."""
        return [record for record in self.records if record.event in events]
