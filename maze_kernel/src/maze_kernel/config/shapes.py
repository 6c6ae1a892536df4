"""Which types a value could be meant as, by its TOML shape alone; its content is judged by `structure`."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, Literal

from maze_kernel.config import fields as f
from maze_kernel.config.reading import Reader
from maze_kernel.config.scalars import widens

TOML_TYPES = (str, bool, int, float, list, tuple, Mapping, type(None))


def fits(value: Any, annotation: Any, reader: Reader) -> bool:
    """Whether a value has the TOML shape of a type; its content is not looked at."""
    if f.selection_kind(annotation) is not None:
        return reader.python or isinstance(value, Mapping)
    annotation, remarks = f.strip_annotated(annotation)
    if (members := f.union_members(annotation)) is not None:
        return any(fits(value, member, reader) for member in members)
    if annotation in (Any, object) or (f.OR_OBJECT in remarks and not isinstance(value, TOML_TYPES)):
        return True
    if typing.get_origin(annotation) is Literal:
        return any(type(choice) is type(value) for choice in typing.get_args(annotation))
    if f.is_enum(annotation):
        return isinstance(value, annotation) or any(type(choice.value) is type(value) for choice in annotation)
    if f.list_members(annotation) is not None:
        return isinstance(value, (list, tuple))
    if f.table_member(annotation) is not None or f.is_options_class(annotation):
        return isinstance(value, Mapping) or (f.is_options_class(annotation) and isinstance(value, annotation))
    return type(value) is annotation or widens(value, annotation, reader)


def names_itself(value: Any, annotation: Any) -> int:
    """How an options class takes a table's `use = "…"`: 2 if its field is a Literal with it, 1 if a str, else 0."""
    annotation, _ = f.strip_annotated(annotation)
    if not isinstance(value, Mapping) or not f.is_options_class(annotation):
        return 0
    own = [field.annotation for field in f.fields_of_class(annotation).fields if field.name == "use"]
    return 0 if not own or "use" not in value else 2 if value["use"] in typing.get_args(own[0]) else int(own[0] is str)
