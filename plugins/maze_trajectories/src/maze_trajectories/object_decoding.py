"""Recorded objects back in the classes of an environment, which names them; a recording never does.

Its annotations name them, or a state that it is in, or the modules it is written in. What the environment does not know
comes back as a `types.SimpleNamespace` with the recorded fields, so that renderers that only read attributes can still
draw it.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn

from maze_kernel.contracts.events import EventRecord
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.events.declaration import events_of
from maze_trajectories.live_objects import classes_beside, is_plain, is_record, like, objects_in, rebuilt
from maze_trajectories.object_encoding import ARRAY, BYTES, ENUM, FLOAT, MAP, SET, TYPE

_METHODS = ("reset", "step", "get_maze_state")
"""Methods of a core environment whose annotations name its states and actions."""


class RecordedClasses:
    """The classes of an environment's states, actions and events, by name.

    Args:
        core_env: annotations of its `reset`, `step` and `get_maze_state` name states and actions, its present state has
            them, or they stand beside it; its topics name the events. None: nothing is known.

    Attributes:
        unknown: names of the classes of which an object, and of the enums of which a member, was decoded without them.
    """

    def __init__(self, core_env: Any | None = None) -> None:
        self._classes: dict[str, type] = {}
        self._examples: dict[str, Any] = {}
        self._events: dict[str, Any] = {}
        self._converter = _converter()
        self._state_hint = self._action_hint = self._state = None
        self.unknown: set[str] = set()
        if core_env is None:
            return
        reset, step, get_state = (_hints(getattr(type(core_env), method, None)) for method in _METHODS)
        for hints in (reset, step, get_state):
            self._add(hints.values())
        self._state_hint = get_state.get("return", reset.get("return"))
        self._action_hint = next((hint for name, hint in step.items() if name != "return"), None)
        self._learn(_present_state(core_env))
        self._add(classes_beside(type(core_env), CoreEnv))
        for interface in core_env.pubsub.interfaces:
            for name, event in events_of(interface).items():
                self._events[f"{interface.__name__}/{name}"] = (interface, event, _hints(event))

    def decode(self, tree: Any, arrays: Sequence[np.ndarray]) -> Any:
        """The object that `ObjectEncoder` wrote."""
        if isinstance(tree, list):
            return [self.decode(item, arrays) for item in tree]
        if not isinstance(tree, dict):
            return tree
        for mark, restore in _RESTORE.items():
            if mark in tree:
                return restore(self.decode(tree[mark], arrays))
        if ARRAY in tree:
            return arrays[tree[ARRAY]]
        if ENUM in tree:
            return self._enum(*tree[ENUM])
        fields = {key: self.decode(item, arrays) for key, item in tree.items() if key != TYPE}
        return self._object(tree[TYPE], fields) if TYPE in tree else fields

    def state(self, tree: Any, arrays: Sequence[np.ndarray]) -> Any:
        """A MazeState, also where its class leaves no name in the recording: a NamedTuple, a tuple."""
        return like(self._as(self.decode(tree, arrays), self._state_hint), self._state)

    def action(self, tree: Any, arrays: Sequence[np.ndarray]) -> Any:
        """A MazeAction; likewise."""
        return self._as(self.decode(tree, arrays), self._action_hint)

    def event(self, tree: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> EventRecord:
        """An event record; one of an unknown interface gets a stand-in of that name."""
        name = tree["event"]
        attributes = {key: self.decode(value, arrays) for key, value in tree["attributes"].items()}
        if name not in self._events:
            return EventRecord(*_stand_in(*name.split("/", 1)), attributes)
        interface, event, hints = self._events[name]
        typed = {key: self._as(value, hints.get(key)) for key, value in attributes.items()}
        return EventRecord(interface, event, typed)

    def _object(self, name: str, fields: dict[str, Any]) -> Any:
        cls = self._classes.get(name)
        if cls is not None:
            try:
                return self._converter.structure(fields, cls)
            except Exception:  # the class has changed since, or its annotations say less than it holds
                pass
        elif name in self._examples:
            return rebuilt(self._examples[name], fields)
        else:
            self.unknown.add(name)
        return types.SimpleNamespace(**fields)

    def _enum(self, name: str, member: str) -> Any:
        cls = self._classes.get(name)
        if isinstance(cls, enum.EnumMeta) and member in cls.__members__:
            return cls[member]
        self.unknown.add(name)
        return member

    def _as(self, value: Any, hint: Any) -> Any:
        if hint is None or value is None:
            return value
        try:
            return self._converter.structure(value, hint)
        except Exception:  # an annotation that is no type of data
            return value

    def _learn(self, state: Any) -> None:
        """The classes of a state and of all that it holds."""
        self._state = state
        for value in objects_in(state):
            if is_plain(value):
                self._examples.setdefault(type(value).__qualname__, value)
            else:
                self._add((type(value),))

    def _add(self, hints: Iterable[Any]) -> None:
        """These classes and all that their fields are annotated with."""
        for hint in hints:
            self._add(typing.get_args(hint))
            if not isinstance(hint, type) or hint.__qualname__ in self._classes:
                continue
            if isinstance(hint, enum.EnumMeta):
                self._classes[hint.__qualname__] = hint
            elif is_record(hint) or issubclass(hint, (tuple, dict)):  # NamedTuple and TypedDict have fields, too
                self._classes[hint.__qualname__] = hint
                self._add(_hints(hint).values())


_RESTORE: dict[str, Any] = {
    FLOAT: float,
    SET: lambda items: _collected(set, [_hashable(item) for item in items]),
    BYTES: base64.b64decode,
    MAP: lambda items: _collected(dict, [(_hashable(key), value) for key, value in items]),
}


def _collected(cls: type, items: list[Any]) -> Any:
    """A set or dict of these; the list itself where one was an object of a class that nobody names now."""
    try:
        return cls(items)
    except TypeError:
        return items


def _hashable(key: Any) -> Any:
    if isinstance(key, set):
        return frozenset(key)
    return tuple(_hashable(item) for item in key) if isinstance(key, list) else key


def _stand_in(interface_name: str, event_name: str) -> tuple[type, Any]:
    """An interface and event of these names, for a record's `name`."""

    def event() -> None: ...

    event.__name__ = event_name
    return type(interface_name, (), {}), event


def _present_state(core_env: Any) -> Any:
    """None where no episode was begun."""
    try:
        return core_env.get_maze_state()
    except Exception:
        return None


def _hints(annotated: Any) -> dict[str, Any]:
    """The resolved annotations; none where a name is only known to type checkers."""
    try:
        return {} if annotated is None else typing.get_type_hints(annotated)
    except (NameError, TypeError):
        return {}


def _converter() -> Converter:
    """Turns lists into the tuples that annotations ask for; parts that were decoded already pass as they are."""
    converter = Converter()

    def passing(build: Any) -> Any:
        return lambda value, cls: value if isinstance(value, cls) else build(value, cls)

    converter.register_structure_hook_factory(is_record, lambda cls: passing(_from_fields(cls, converter)))
    converter.register_structure_hook_func(
        lambda hint: hint is Any or np.ndarray in (hint, typing.get_origin(hint)), lambda value, _hint: value
    )
    converter.register_structure_hook_func(lambda hint: isinstance(hint, enum.EnumMeta), _structure_enum)
    return converter


def _from_fields(cls: Any, converter: Converter) -> Any:
    """Builds a class of its fields, those that its `__init__` does not take included."""
    build = make_dict_structure_fn(cls, converter)
    fields = attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls)
    hints = _hints(cls)
    later = {field.name: hints.get(field.name, Any) for field in fields if not field.init}

    def built(value: Mapping[str, Any], hint: Any) -> Any:
        made = build(value, hint)
        for name in later.keys() & value.keys():
            object.__setattr__(made, name, converter.structure(value[name], later[name]))  # frozen classes, too
        return made

    return built


def _structure_enum(value: Any, cls: Any) -> Any:
    return value if isinstance(value, cls) else cls(value)
