"""Topics, subscribers and what an event that nobody hears costs."""

import tracemalloc
from abc import ABC, abstractmethod

import pytest

from maze_kernel.errors import EnvError
from maze_runtime.events.pubsub import Pubsub, Subscriber


class DoorEvents(ABC):
    @abstractmethod
    def opened(self, by, loudly=False):
        """With a default."""

    @abstractmethod
    def closed(self):
        """No attributes."""


class BellEvents:
    def rang(self): ...


class Listener(Subscriber):
    def __init__(self, *interfaces):
        super().__init__()
        self._interfaces = interfaces

    def get_interfaces(self):
        return self._interfaces


def test_a_subscriber_hears_its_interfaces_and_queries_by_event():
    pubsub = Pubsub()
    doors, bells = pubsub.create_event_topic(DoorEvents), pubsub.create_event_topic(BellEvents)
    at_the_door, everywhere = Listener(DoorEvents), Listener(DoorEvents, BellEvents)
    pubsub.register_subscriber(at_the_door)
    pubsub.register_subscriber(everywhere)
    bells.rang()
    doors.opened("Ada")
    doors.opened(by="Bob", loudly=True)
    doors.closed()
    assert [record.attributes for record in at_the_door.query_events(DoorEvents.opened)] == [
        {"by": "Ada", "loudly": False},
        {"by": "Bob", "loudly": True},
    ]
    names = [record.name for record in everywhere.query_events(BellEvents.rang, DoorEvents.closed)]
    assert names == ["BellEvents/rang", "DoorEvents/closed"]
    everywhere.clear()
    assert everywhere.query_events(DoorEvents.opened) == []
    assert len(at_the_door.query_events(DoorEvents.opened)) == 2


def test_an_event_of_another_interface_is_no_silent_nothing():
    class LoudDoorEvents(DoorEvents):
        def slammed(self): ...

    with pytest.raises(EnvError) as caught:
        Listener(DoorEvents).query_events(DoorEvents.opened, BellEvents.rang)
    for word in ("BellEvents.rang", "Listener", "DoorEvents"):
        assert word in caught.value.render()
    assert Listener(LoudDoorEvents).query_events(DoorEvents.opened, LoudDoorEvents.slammed) == []


def test_who_registers_before_the_topic_exists_hears_it_too():
    pubsub = Pubsub()
    log, listener = pubsub.record(), Listener(BellEvents)
    pubsub.register_subscriber(listener)
    pubsub.create_event_topic(BellEvents).rang()
    assert len(log) == len(listener.query_events(BellEvents.rang)) == 1


def test_a_topic_is_an_instance_of_its_interface_and_there_is_one():
    pubsub = Pubsub()
    topic = pubsub.create_event_topic(DoorEvents)
    assert isinstance(topic, DoorEvents)
    assert pubsub.create_event_topic(DoorEvents) is topic


@pytest.mark.parametrize("call", [lambda doors: doors.opened(), lambda doors: doors.closed(by="Ada")])
def test_wrong_attributes_are_an_error_at_the_line_that_fires(call):
    pubsub = Pubsub()
    pubsub.record()
    with pytest.raises(TypeError, match="argument"):
        call(pubsub.create_event_topic(DoorEvents))


def test_a_class_without_events_is_refused():
    with pytest.raises(TypeError, match="no public method"):
        Pubsub().create_event_topic(type("Empty", (ABC,), {}))


def test_an_event_that_nobody_hears_leaves_nothing_behind():
    bells = Pubsub().create_event_topic(BellEvents)
    bells.rang()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(1000):
        bells.rang()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 200
