"""An experiment back to plain TOML data, every default written out; a cattrs converter does the walking."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.config.experiment import Experiment
from maze_kernel.config.fields import fields_of_class
from maze_kernel.config.selecting import inline_field
from maze_kernel.selection import Selection

if TYPE_CHECKING:
    from cattrs import Converter


def resolve_experiment(experiment: Experiment) -> dict[str, Any]:
    """Plain data (TOML types only) that structures to an equal experiment.

    What is None is left out. A component given as a Python object is recorded by its name only.
    """
    data: dict[str, Any] = plain(experiment)
    data.pop("preset", None)  # what it gave is written out
    return data


def plain(value: Any) -> Any:
    """Tables, lists, strings, numbers and booleans, none of them shared with `value`."""
    return _without_none(_converter().unstructure(value))


def to_toml(data: Mapping[str, Any]) -> str:
    """Plain data as TOML text; reading it gives the same data."""
    import tomli_w

    return tomli_w.dumps(data)


@cache
def _converter() -> Converter:
    """From attrs classes to tables; never changed after it is made."""
    from cattrs import Converter

    converter = Converter(unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook(PurePath, str)
    converter.register_unstructure_hook_func(attrs.has, partial(_table, converter))
    converter.register_unstructure_hook(
        Selection, lambda selection: {"use": selection.use, **converter.unstructure(selection.options)}
    )
    return converter


def _table(converter: Converter, table: Any) -> dict[str, Any]:
    """An instance of an options class; cattrs itself would need every annotation to mean something at run time."""
    fields = fields_of_class(type(table))
    data = {field.name: converter.unstructure(getattr(table, field.attribute.name)) for field in fields.fields}
    if (inline := inline_field(fields)) is None:
        return data
    selected = getattr(table, inline.attribute.name)
    if selected is None:
        return {**data, inline.name: inline.inline}
    return {**converter.unstructure(selected.options), **data, inline.name: selected.use}


def _without_none(data: Any) -> Any:
    """TOML has no null: an absent key says it."""
    if isinstance(data, Mapping):
        return {str(key): _without_none(item) for key, item in data.items() if item is not None}
    if isinstance(data, (list, tuple)):
        return [_without_none(item) for item in data if item is not None]
    return data
