"""Our own records to JSON data and back, by cattrs: what run directories hold besides tensors.

Files of users are read by `maze_kernel.config`, which reports every problem with its place. What is read here was
written by Maze, so one error that says what is damaged is enough.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from cattrs import Converter

_Record = TypeVar("_Record")


def to_data(record: Any) -> Any:
    """Dicts, lists, strings, numbers, booleans and None."""
    return _converter().unstructure(record)


def from_data(data: Any, record_type: type[_Record]) -> _Record:
    """The inverse of `to_data`; keys that the class does not have are passed over.

    Raises:
        ValueError: a key is missing or a value has another type; says which.
    """
    from cattrs import transform_error
    from cattrs.errors import BaseValidationError

    try:
        return _converter().structure(data, record_type)
    except BaseValidationError as error:
        raise ValueError("; ".join(transform_error(error, path="record"))) from error


@cache
def _converter() -> Converter:
    """Exact about scalars: a number in quotes is damage, not a number. Never changed after it is made."""
    from cattrs import Converter

    converter = Converter(unstruct_collection_overrides={tuple: list})
    for scalar in (str, int, float, bool):
        converter.register_structure_hook(scalar, _exact)
    return converter


def _exact(value: Any, scalar: type[Any]) -> Any:
    if type(value) is scalar or (scalar is float and type(value) is int):
        return scalar(value)
    raise ValueError(f"expected {scalar.__name__}, got {value!r:.60}")
