"""One event as it happened, and the events of an episode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from maze_kernel.events.declaration import EventMethod


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
    """The events of one episode, one list an environment step; those of `reset` stand in the first step's."""

    steps: list[list[EventRecord]] = attrs.field(factory=list)

    def query_events(self, event: EventMethod) -> Iterator[EventRecord]:
        """All records of one event, in the order they were fired."""
        return (record for step in self.steps for record in step if record.event is event)
