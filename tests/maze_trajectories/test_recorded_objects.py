"""States, actions and events of simulations as data: what goes in comes out, and nothing is run to get it."""

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

from maze_cutting2d.events import CuttingEvents
from maze_cutting2d.states import CutAction, CuttingState, SelectAction
from maze_kernel.errors import EnvError
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.simulation import Recording
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.object_decoding import RecordedClasses
from maze_trajectories.object_encoding import ObjectEncoder
from maze_trajectories.recording import RecordingEnv


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: int


@attrs.frozen
class Wheel:
    size: tuple[float, float]
    color: Color


@dataclasses.dataclass
class Car:
    wheels: tuple[Wheel, ...]
    map: np.ndarray
    seats: Mapping[int, str]
    place: Point
    spare: Wheel | None = None
    note: Any = None
    _hidden: int = 3


class Plain:
    def __init__(self):
        self.numbers = [1, 2]
        self.wheel = Wheel((1.0, 2.0), Color.RED)


class Garage(CoreEnv):
    def reset(self, seed: int | None = None) -> Car: ...

    def step(self, maze_action: Wheel) -> tuple[Car, float, bool, bool, dict[str, Any]]: ...

    def get_maze_state(self) -> Car: ...


def round_trip(value, core_env=None):
    encoder = ObjectEncoder()
    text = encoder.encode(value, "the MazeState")
    return RecordedClasses(core_env).decode(json.loads(text), encoder.arrays)


def car(**changes):
    wheels = (Wheel((1.5, 2.0), Color.BLUE), Wheel((math.inf, 0.0), Color.RED))
    parts = {"wheels": wheels, "map": np.eye(2), "seats": {1: "me", 2: "you"}, "place": Point(1, 2)}
    return Car(**{**parts, **changes})


@pytest.mark.parametrize("spare", [None, Wheel((math.nan, 1.0), Color.RED)])
def test_objects_come_back_in_the_classes_that_the_environment_names(spare):
    back = round_trip(car(spare=spare), Garage())
    np.testing.assert_array_equal(back.map, np.eye(2))
    assert type(back) is Car
    assert dataclasses.replace(back, map=None, spare=None) == car(map=None)
    assert back.place == Point(1, 2)
    assert isinstance(back.wheels, tuple)
    assert (back.spare is None) == (spare is None)
    assert spare is None or (math.isnan(back.spare.size[0]) and back.spare.color is Color.RED)


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        -0.25,
        True,
        "ä{}",
        [1, [2.5, "x"]],
        {"a": 1, "b": {"c": [None]}},
        {1: "one", (2, 3): "pair"},
        {"$type": "not a type"},
        {1, 5},
        {(1, 2), (3, (4, 5))},
        {frozenset({1}): "a"},
        {frozenset({1}), frozenset({2, 3})},
        b"\x00\xff",
        math.inf,
    ],
)
def test_plain_data_come_back(value):
    assert round_trip(value) == value


def test_numpy_scalars_are_numbers_and_arrays_keep_their_dtype():
    assert round_trip([np.float32(0.5), np.int64(3), np.bool_(True)]) == [0.5, 3, True]
    back = round_trip({"a": np.arange(4, dtype=np.uint8), "b": np.zeros((0, 3))})
    assert back["a"].dtype == np.uint8
    assert back["b"].shape == (0, 3)


def test_an_unknown_class_comes_back_as_a_namespace():
    back = round_trip(Plain())
    assert back.numbers == [1, 2]
    assert back.wheel.size == [1.0, 2.0]
    assert back.wheel.color == "RED"


def test_a_recording_cannot_name_a_class_the_environment_does_not():
    tree = {"$type": "os.system", "command": "touch /tmp/owned"}
    back = RecordedClasses(Garage()).decode(tree, [])
    assert type(back).__name__ == "SimpleNamespace"


def test_a_class_that_has_changed_comes_back_as_a_namespace():
    tree = {"$type": "Wheel", "diameter": 3}
    assert RecordedClasses(Garage()).decode(tree, []).diameter == 3


def test_an_array_without_dimensions_keeps_its_shape():
    assert round_trip({"a": np.array(3.5)})["a"].shape == ()


@attrs.frozen
class Shift:
    breaks: set[tuple[int, int]]
    hour: int = attrs.field(init=False, default=0)


@dataclasses.dataclass(frozen=True)
class Day:
    shift: Shift
    colors: list[Color] = dataclasses.field(init=False, default_factory=list)


class Office(Garage):
    def get_maze_state(self) -> Day: ...


def test_fields_that_init_does_not_take_come_back_with_what_they_were():
    shift = Shift(breaks={(9, 10), (12, 13)})
    object.__setattr__(shift, "hour", 7)
    day = Day(shift)
    object.__setattr__(day, "colors", [Color.BLUE])
    assert round_trip(day, Office()) == day


class Move(NamedTuple):
    color: Color
    to: tuple[int, int]


class Board(CoreEnv):
    def reset(self, seed: int | None = None) -> Point: ...

    def step(self, maze_action: Move | None) -> tuple[Point, float, bool, bool, dict[str, Any]]: ...

    def get_maze_state(self): ...


@pytest.mark.parametrize("action", [Move(Color.BLUE, (1, 2)), None])
def test_states_and_actions_that_are_tuples_come_back_as_what_the_methods_are_annotated_with(action):
    encoder, classes = ObjectEncoder(), RecordedClasses(Board())
    state, acted = (json.loads(encoder.encode(value, "it")) for value in (Point(3, 4), action))
    assert type(classes.state(state, [])) is Point
    assert classes.state(state, []) == Point(3, 4)
    assert classes.action(acted, []) == action
    assert type(classes.action(acted, [])) is type(action)


def test_objects_of_an_unknown_class_cannot_be_members_of_a_set_any_more():
    (back,) = round_trip({Wheel((1.0, 2.0), Color.RED)})
    assert back.size == [1.0, 2.0]


@pytest.mark.parametrize("value", [{"f": len}, [open], np.array(["text"]), {"a": object()}])
def test_what_is_no_data_is_refused_by_name(value):
    with pytest.raises(EnvError, match="the MazeState cannot be recorded") as caught:
        ObjectEncoder().encode(value, "the MazeState")
    assert "attrs" in caught.value.expected


def test_a_circle_is_refused():
    circle = []
    circle.append(circle)
    with pytest.raises(EnvError, match="cannot be recorded"):
        ObjectEncoder().encode(circle, "the MazeState")


def test_a_maze_environment_is_recorded_in_its_own_words(cutting_env, tmp_path):
    env = RecordingEnv(cutting_env("structured", steps=2), Recording(folder=tmp_path))
    inner = env.env
    env.reset(seed=3)
    states = []
    for piece, cut in ((0, 1), (7, 0)):
        states.append(inner.get_maze_state())
        env.step({"piece_idx": piece})
        states.append(inner.get_maze_state())
        env.step({"cut_rotation": 0, "cut_order": cut})
    dataset = TrajectoryDataset.open(tmp_path)
    episode = dataset.maze_episode(0, inner.core_env)
    assert [step.maze_state for step in episode.steps] == states
    assert isinstance(states[1], CuttingState)
    assert [step.maze_action for step in episode.steps] == [
        SelectAction(piece_id=0),
        CutAction(rotate=False, reverse_cutting_order=True),
        SelectAction(piece_id=7),
        CutAction(rotate=False, reverse_cutting_order=False),
    ]
    names = [[event.name for event in step.events] for step in episode.steps]
    assert names[0] == ["InventoryEvents/piece_replenished"], "reset's event belongs to the first step"
    assert "CuttingEvents/valid_cut" in names[1]
    assert names[2] == []
    assert "CuttingEvents/invalid_piece_selected" in names[3]
    (cut,) = [event for event in episode.steps[1].events if event.event is CuttingEvents.valid_cut]
    assert cut.attributes["current_demand"] == (60, 33)
    assert episode.final_state == inner.get_maze_state()
    assert dataset[0].info.episode_id == inner.episode_id
    assert dataset.maze_episode(0).steps[0].maze_state.current_demand == [60, 33]


def test_parts_of_the_simulation_are_recorded_beside_its_states(cutting_env, tmp_path, monkeypatch):
    env = RecordingEnv(cutting_env("flat", steps=2), Recording(folder=tmp_path))
    core_env = env.env.core_env
    saw = lambda: {"saw": Wheel(size=(0.5, float(core_env.context.env_time)), color=Color.RED)}  # noqa: E731
    monkeypatch.setattr(core_env, "get_serializable_components", saw)
    env.reset(seed=3)
    for _ in range(2):
        env.step({"piece_idx": 0, "cut_rotation": 0, "cut_order": 0})
    steps = TrajectoryDataset.open(tmp_path).maze_episode(0).steps
    assert [list(step.components["saw"].size) for step in steps] == [[0.5, 1.0], [0.5, 2.0]]


def test_a_flat_environment_of_another_library_has_no_maze_episode(record_counter):
    assert TrajectoryDataset.open(record_counter(1)).maze_episode(0) is None
