"""Publish and subscribe: topics that environments fire events on, and subscribers that collect them.

An event that nobody listens to costs one function call and allocates nothing.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from maze_kernel.contracts.events import EventMethod, EventRecord
from maze_kernel.errors import EnvError
from maze_runtime.events.declaration import events_of

InterfaceT = TypeVar("InterfaceT")
Sink = list[EventRecord]


class SetByInit:
    """Stands on a class for what its `__init__` sets on instances; until then reading it says who has to call that."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        missing = f"{type(instance).__name__!r} object has no attribute {self._name!r}"
        raise AttributeError(f"{missing}: call super().__init__() first in its __init__")


class Subscriber(ABC):
    """Collects the events of some interfaces; reward aggregators are subscribers."""

    _heard: frozenset[EventMethod] | None = None
    events: Sink = cast(Any, SetByInit())

    def __init__(self) -> None:
        self.events = []

    @abstractmethod
    def get_interfaces(self) -> Sequence[type]:
        """The event interfaces it listens to; they stay the same."""

    def query_events(self, *events: EventMethod) -> list[EventRecord]:
        """The records of these events since the last `clear`, in the order they were fired.

        Raises:
            EnvError: an event of none of its interfaces, which it would never hear.
        """
        if self._heard is None:
            interfaces = self.get_interfaces()
            self._heard = frozenset(event for interface in interfaces for event in events_of(interface).values())
        for event in events:
            if event not in self._heard:
                raise _deaf(self, event)
        return [record for record in self.events if record.event in events]

    def clear(self) -> None:
        """Forget the events so far; `MazeEnv` does it before each step and each `reset`."""
        if self.events:
            self.events.clear()


def _deaf(subscriber: Subscriber, event: EventMethod) -> EnvError:
    names = ", ".join(interface.__name__ for interface in subscriber.get_interfaces())
    return EnvError(
        f"{type(subscriber).__name__} asks for {event.__qualname__}, which it does not listen to",
        received=f"get_interfaces() gives {names or 'nothing'}",
        expected=f"the interface of {event.__name__} among them",
        owner=type(subscriber).__module__,
        help=f"return {event.__qualname__.rpartition('.')[0]} from get_interfaces(), too",
    )


class Pubsub:
    """The events of one environment: its topics and who listens to them."""

    def __init__(self) -> None:
        self._topics: dict[type, Any] = {}
        self._sinks: dict[type, list[Sink]] = {}
        self._logs: list[Sink] = []
        self._subscribers: list[Subscriber] = []

    @property
    def interfaces(self) -> tuple[type, ...]:
        """The interfaces of all topics so far."""
        return tuple(self._topics)

    def create_event_topic(self, interface: type[InterfaceT]) -> InterfaceT:
        """An object of the interface whose methods fire its events; the same one each time.

        Args:
            interface: a class without behaviour, each public method an event and each parameter an attribute of it.

        Raises:
            TypeError: the interface has no public method.
        """
        if interface not in self._topics:
            self._topics[interface] = _make_topic(interface, self._sinks_of(interface))
        return cast(InterfaceT, self._topics[interface])

    def register_subscriber(self, subscriber: Subscriber) -> None:
        """Let a subscriber collect events of its interfaces from now on."""
        for interface in subscriber.get_interfaces():
            self._sinks_of(interface).append(subscriber.events)
        self._subscribers.append(subscriber)

    def clear_subscribers(self) -> None:
        """Let every subscriber forget the events so far."""
        for subscriber in self._subscribers:
            subscriber.clear()

    def record(self) -> Sink:
        """A list that every event of every topic is appended to from now on; its owner clears it."""
        log: Sink = []
        self._logs.append(log)
        for sinks in self._sinks.values():
            sinks.append(log)
        return log

    def _sinks_of(self, interface: type) -> list[Sink]:
        if interface not in self._sinks:
            self._sinks[interface] = list(self._logs)
        return self._sinks[interface]


def _make_topic(interface: type, sinks: list[Sink]) -> Any:
    methods = {name: _firing(interface, event, sinks) for name, event in events_of(interface).items()}
    return type(f"{interface.__name__}Topic", (interface,), methods)()


def _firing(interface: type, event: EventMethod, sinks: list[Sink]) -> EventMethod:
    """A method that appends a record to every sink. Keyword calls that name each attribute take the short way."""
    signature = inspect.signature(event)
    names = frozenset(list(signature.parameters)[1:])

    @functools.wraps(event)
    def fire(self: Any, *args: Any, **attributes: Any) -> None:
        if not sinks:
            return
        if args or attributes.keys() != names:
            try:
                bound = signature.bind(self, *args, **attributes)
            except TypeError as error:
                raise TypeError(f"event {event.__qualname__}{signature}: {error}") from None
            bound.apply_defaults()
            attributes = dict(list(bound.arguments.items())[1:])
        record = EventRecord(interface, event, attributes)
        for sink in sinks:
            sink.append(record)

    fire.__dict__.pop("__isabstractmethod__", None)
    return fire
