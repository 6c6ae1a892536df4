"""Events as they happened, those of an episode, and the statistics an episode leaves behind."""

from __future__ import annotations

from collections.abc import Callable
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
