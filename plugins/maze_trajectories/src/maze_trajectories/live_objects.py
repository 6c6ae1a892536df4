"""What objects that an environment holds tell about recorded ones: their classes, and where lists were tuples."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

_DATA = (str, bytes, bool, int, float, complex, np.ndarray, np.generic, type(None))


def is_record(cls: Any) -> bool:
    """Whether a class says what fields it has."""
    return isinstance(cls, type) and (attrs.has(cls) or dataclasses.is_dataclass(cls))


def is_plain(value: Any) -> bool:
    """Whether it is an object of a class that does not say what fields it has."""
    builtin = (*_DATA, enum.Enum, list, tuple, set, frozenset, Mapping, type)
    return not (isinstance(value, builtin) or is_record(type(value)) or callable(value)) and hasattr(value, "__dict__")


def objects_in(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """All objects of classes that a state consists of, itself included; each once."""
    seen = set() if seen is None else seen
    if isinstance(value, _DATA) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, enum.Enum):
        yield value
        return
    for part in _parts(value):
        yield from objects_in(part, seen)
    if is_record(type(value)) or is_plain(value) or hasattr(value, "_fields"):
        yield value


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if is_record(type(value)):
        fields = attrs.fields(type(value)) if attrs.has(type(value)) else dataclasses.fields(value)
        return [getattr(value, field.name, None) for field in fields]
    return list(vars(value).values()) if is_plain(value) else []


def like(value: Any, example: Any) -> Any:
    """A recorded value with tuples where an example of it has some; records are made by their annotations."""
    if isinstance(value, list) and isinstance(example, (list, tuple)):
        alike = example if len(example) == len(value) else list(example[:1]) * len(value)
        items = [like(item, one) for item, one in zip(value, alike, strict=True)] if alike else value
        if isinstance(example, list):
            return items
        is_named = hasattr(example, "_fields") and len(example) == len(items)
        return type(example)(*items) if is_named else tuple(items)
    if isinstance(value, dict) and isinstance(example, Mapping) and example:
        first = next(iter(example.values()))
        return {key: like(item, example.get(key, first)) for key, item in value.items()}
    return value


def rebuilt(example: Any, fields: Mapping[str, Any]) -> Any:
    """An object of the class of a plain one with these attributes; nothing of it is run."""
    made = object.__new__(type(example))
    known = vars(example)
    vars(made).update({name: like(value, known.get(name)) for name, value in fields.items()})
    return made


def classes_beside(cls: type, last: type) -> Iterator[type]:
    """Records and enums that the modules of a class and of its bases before `last` define or import."""
    bases = cls.__mro__[: cls.__mro__.index(last)] if last in cls.__mro__ else (cls,)
    for base in bases:
        module = sys.modules.get(base.__module__)
        for found in list(vars(module).values()) if module is not None else ():
            if is_record(found) or isinstance(found, enum.EnumMeta):
                yield found
