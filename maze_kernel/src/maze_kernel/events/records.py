"""Events as they happened, those of an episode, and the statistics an episode leaves behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import attrs

EventMethod = Callable[..., Any]
"""A method of an event interface, as written behind the class: `CuttingEvents.valid_cut`."""


@attrs.define(slots=True)
class EventRecord:
    """An event that was fired.

    Attributes:
        interface: the event interface.
        event: its method, `CuttingEvents.valid_cut`.
        attributes: the arguments it was fired with, by name.
    """

    interface: type
    event: EventMethod
    attributes: dict[str, Any]

    @property
    def name(self) -> str:
        """`Interface/event`, as in tags and file names."""
        return f"{self.interface.__name__}/{self.event.__name__}"


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

    def query_events(self, event: EventMethod) -> Iterator[EventRecord]:
        """All records of one event, in the order they were fired."""
        return (record for record in self.records if record.event is event)


Group = tuple[Any, ...]
"""One value an attribute of `define_stats_grouping`; None where `group_by` pooled it."""

Samples = dict[tuple[str | None, Group], list[Any]]
"""Values of one event by (name of the statistic or attribute, group)."""


@attrs.define(slots=True)
class EventStatistics:
    """The statistics of one event in one episode, by (output name, group).

    Attributes:
        interface: name of the event interface, as in tags.
        event: the interface's method; travels between processes by reference.
        values: without episode statistics, the values of the level below, several each.
    """

    interface: str
    event: EventMethod
    values: Samples


EpisodeStatistics = list[EventStatistics]
"""Of one episode, one entry an event that left a value; travels between processes."""
