"""Single values to booleans, numbers, texts, paths and the choices of Literal and Enum."""

from __future__ import annotations

import math
import typing
from pathlib import Path
from typing import Any

from maze_kernel.catalog import nearest
from maze_kernel.config import complaints
from maze_kernel.config import fields as f
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.errors import RequestError

_INT64 = range(-(2**63), 2**63)


def structure_scalar(value: Any, annotation: Any, scope: Scope, reader: Reader) -> Any:
    """A boolean, number, text or path, or INVALID with a problem recorded."""
    if annotation not in (bool, int, float, str, Path):
        reader.problems.add(
            scope.path,
            f"{{path}} cannot be set in an experiment: its type {f.show_type(annotation)} has no TOML form",
            owner=scope.owner,
            help="leave the key out, or ask the owner for an option of plain type",
        )
        return INVALID
    if type(value) is not annotation and not widens(value, annotation, reader):
        return complaints.wrong_type(value, annotation, scope, reader)
    if annotation is str:
        return checked_text(value, scope, reader)
    return checked_number(annotation(value), annotation, scope, reader)


def structure_literal(value: Any, annotation: Any, scope: Scope, reader: Reader) -> Any:
    """One of the values of a Literal or an Enum, or INVALID with a problem recorded."""
    if f.is_enum(annotation):
        if isinstance(value, annotation):
            return value
        choices = {member.value: member for member in annotation}
    else:
        choices = {choice: choice for choice in typing.get_args(annotation)}
    for choice, result in choices.items():
        if type(choice) is type(value) and choice == value:
            return result
    if not any(type(choice) is type(value) for choice in choices):
        return complaints.wrong_type(value, annotation, scope, reader)
    near = nearest(value, [choice for choice in choices if isinstance(choice, str)]) if isinstance(value, str) else ()
    expected = f.show_type(annotation)
    return complaints.wrong_value("is not one of its values", value, expected, scope, reader, nearest=near)


def checked_text(value: str, scope: Scope, reader: Reader) -> Any:
    """The text, unless it is an option that names code which may not be imported."""
    if scope.advice is None:  # the kernel's own tables import nothing
        return value
    try:
        reader.check_text(value, reader.problems.origin.value(scope.path))
    except RequestError as error:
        reader.problems.add_error(scope.path, error)
        return INVALID
    return value


def checked_number(value: Any, annotation: Any, scope: Scope, reader: Reader) -> Any:
    """The number, unless it is too large for 64 bits, or not finite where it must be."""
    if type(value) is int and value not in _INT64:
        return complaints.wrong_value("is too large", value, "an integer of at most 64 bits", scope, reader)
    if type(value) is float and not math.isfinite(value) and not scope.non_finite:
        expected = complaints.expected_text(annotation, scope)
        return complaints.wrong_value("is not a finite number", value, expected, scope, reader)
    return value


def widens(value: Any, annotation: Any, reader: Reader) -> bool:
    """Whether a value may stand for a type that is not its own: an integer for a number, a text for a path."""
    if annotation is float:
        return type(value) is int
    return annotation is Path and (type(value) is str or (reader.python and isinstance(value, Path)))
