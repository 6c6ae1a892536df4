"""Classes of states that no annotation names: a state the environment is in has them, or its modules."""

import dataclasses
import enum
import json
from typing import NamedTuple

import attrs
import pytest

from maze_bc.recorded_objects import begin_episode, objects_of
from maze_kernel.errors import EnvError
from maze_runtime.datasets.maze_episodes import MazeEpisode
from maze_runtime.env.core_env import CoreEnv
from maze_trajectories.object_decoding import RecordedClasses
from maze_trajectories.object_encoding import ObjectEncoder


@attrs.frozen
class Move:
    """An action; it stands beside the environment."""

    by: tuple[int, int]


def simulation(state):
    """An environment without annotations that begins in a state of classes which stand in no module."""

    class Bare(CoreEnv):
        def reset(self, seed=None):
            self.now = state
            return state

        def step(self, maze_action): ...

        def get_maze_state(self):
            return self.now

    return Bare()


def back(value, core_env):
    encoder = ObjectEncoder()
    classes = RecordedClasses(core_env)
    return classes.state(json.loads(encoder.encode(value, "the MazeState")), encoder.arrays), classes.unknown


def local_classes():
    class Urgency(enum.Enum):
        LOW = 1
        HIGH = 2

    @dataclasses.dataclass(frozen=True)
    class Order:
        place: tuple[int, int]
        urgency: Urgency

    @attrs.frozen
    class State:
        orders: list
        hour: int = 0

    return Urgency, Order, State


def test_a_state_the_environment_is_in_tells_its_classes():
    urgency, order, state = local_classes()
    core_env = simulation(state([order((1, 2), urgency.LOW)]))
    recorded = state([order((3, 4), urgency.HIGH), order((5, 6), urgency.LOW)], 7)
    assert back(recorded, core_env)[1] == {state.__qualname__, order.__qualname__, urgency.__qualname__}
    begin_episode(core_env)
    assert back(recorded, core_env) == (recorded, set())


def test_classes_beside_the_environment_are_known_too():
    assert back(Move((1, 2)), simulation(None)) == (Move((1, 2)), set())


class Pair(NamedTuple):
    x: int
    at: tuple


@pytest.mark.parametrize(
    ("live", "recorded"),
    [
        ({"pos": (0, 0), "cells": [[(1, 1)]]}, {"pos": (3, 4), "cells": [[(1, 2), (3, 4)], []]}),
        ((1, [2]), (3, [4, 5])),
        (((0, 0),), ((1, 2), (3, 4))),
        (Pair(0, (1,)), Pair(5, (6,))),
        ({"a": Pair(0, ())}, {"a": Pair(1, ())}),
    ],
)
def test_lists_are_tuples_where_the_state_has_tuples(live, recorded):
    core_env = simulation(live)
    begin_episode(core_env)
    value, unknown = back(recorded, core_env)
    assert (value, unknown) == (recorded, set())
    assert repr(value) == repr(recorded)


def test_plain_objects_get_their_class_and_nothing_of_it_is_run():
    class Plain:
        def __init__(self):
            self.place, self.names = (1, 2), ["a"]

        def total(self):
            return sum(self.place)

    core_env = simulation(Plain())
    begin_episode(core_env)
    recorded = Plain()
    recorded.place = (5, 6)
    Plain.__init__ = None
    value, unknown = back(recorded, core_env)
    assert (type(value), value.place, value.names, value.total(), unknown) == (Plain, (5, 6), ["a"], 11, set())


def test_conversions_get_no_stand_ins():
    class Recording:
        def maze_episode(self, index, core_env=None):
            return MazeEpisode(steps=(), final_state=None, unknown_classes=("Load", "Pick"))

    with pytest.raises(EnvError, match="classes that Bare does not tell") as caught:
        objects_of(Recording(), 0, simulation(0))
    assert caught.value.received == "Load, Pick"
    assert __name__ in caught.value.owner
    assert "annotate" in caught.value.help
