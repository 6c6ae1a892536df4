"""A JSON Schema of every sweep that can be written with what is installed, for completion in editors.

Whatever `maze sweep` accepts, the schema accepts. It knows the shape of a space and the names of settings, not their
types. Which component a setting belongs to is said by the experiment, which an editor does not look into: so unknown
names are marked at the top of a space and in choices with `use`, and below a key all names are offered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from maze_kernel.config.documentation import texts_of_class
from maze_kernel.config.fields import fields_of_class
from maze_kernel.config.json_schema import Schema, SchemaBuilder, schema
from maze_sweeps.file import SweepFile

if TYPE_CHECKING:
    from maze_kernel.catalog import CatalogEntry
    from maze_kernel.loader import Kernel

_OWN = ("name", "seed")
"""Keys of an experiment that a sweep file has keys of its own for."""

_ENTRY: Schema = {"$ref": "#/$defs/space.entry"}
_PART: Schema = {"$ref": "#/$defs/space.part"}
_BRANCH: Schema = {"$ref": "#/$defs/space.branch"}
_OTHER: Schema = {"type": "object"}
"""A table that is a setting called like a word of a leaf."""


def _choices(branch: Schema) -> Schema:
    return {"anyOf": [{"type": "array", "minItems": 1, "items": branch}, _OTHER]}


def _table(content: Schema, branch: Schema = _BRANCH, named: dict[str, Schema] | None = None) -> Schema:
    """A table of settings.

    Args:
        content: of settings that are not named.
        branch: one of its choices.
        named: the settings whose names are offered.
    """
    words = {"values": _OTHER, "low": _OTHER, "high": _OTHER, "choices": _choices(branch)}
    return {"type": "object", "properties": {**(named or {}), **words}, "additionalProperties": content}


_LABEL: Schema = {"description": "What this choice is called in tables and files."}
_DEFINITIONS: dict[str, Schema] = {
    "space.values": {
        "type": "object",
        "properties": {"values": {"type": "array", "minItems": 1, "description": "One of these is chosen."}},
        "required": ["values"],
        "additionalProperties": False,
    },
    "space.range": {
        "type": "object",
        "properties": {
            "low": {"type": "number", "description": "The smallest number that may be chosen."},
            "high": {"type": "number", "description": "The largest number that may be chosen."},
            "log": {"type": "boolean", "description": "Equal ratios are equally likely.", "default": False},
            "step": {"type": "number", "exclusiveMinimum": 0, "description": "Only every so many, from low on."},
            "points": {"type": "integer", "minimum": 1, "description": "How many of them a grid tries."},
        },
        "required": ["low", "high"],
        "not": {"required": ["log", "step"], "properties": {"log": {"const": True}}},
        "additionalProperties": False,
    },
    "space.branch": {
        "type": "object",
        "properties": {"label": _LABEL, "choices": _choices(_BRANCH)},
        "additionalProperties": _PART,
    },
    "space.table": {**_table(_ENTRY), "minProperties": 1},
    "space.inner": _table(_PART),
    "space.entry": {"anyOf": [{"$ref": f"#/$defs/space.{kind}"} for kind in ("values", "range", "table")]},
    "space.part": {
        "anyOf": [
            {"not": {"type": "object"}},
            *({"$ref": f"#/$defs/space.{kind}"} for kind in ("values", "range", "inner")),
        ]
    },
}


def sweep_schema(kernel: Kernel) -> Schema:
    """JSON Schema, draft 2020-12, of sweep files for the plugins of a kernel."""
    builder = SchemaBuilder(catalog=kernel.catalog)
    root = builder.options(fields_of_class(SweepFile), texts_of_class(SweepFile))
    for entry in kernel.catalog.entries("searcher"):
        if getattr(entry.component, "default", False):  # a [searcher] without `use` is this one
            builder.definitions[_definition(entry)]["required"].remove("use")
    space = _Space(schema(kernel))
    root["properties"]["space"] |= {
        "properties": {**space.settings(), "choices": _choices(_BRANCH)},
        "additionalProperties": False,
        "minProperties": 1,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Maze sweep",
        "description": "One sweep for the plugins installed when this schema was written.",
        **root,
        "$defs": {**builder.definitions, **_DEFINITIONS, **space.definitions},
    }


def _definition(entry: CatalogEntry) -> str:
    return f"{entry.component.kind}.{entry.qualified_name}".replace(":", ".")


class _Space:
    """Names and texts of the settings of experiments, from their schema."""

    def __init__(self, experiment: Schema) -> None:
        self._experiment = experiment
        self.definitions: dict[str, Schema] = {}

    def settings(self) -> dict[str, Schema]:
        """What may be chosen below each key of an experiment."""
        found = {}
        for name, setting in self._experiment["properties"].items():
            if name in _OWN:
                continue
            table = self._below(setting)
            leaves = [{"$ref": "#/$defs/space.values"}, {"$ref": "#/$defs/space.range"}]
            found[name] = {"description": setting.get("description", ""), "anyOf": [*leaves, table]}
        return found

    def _below(self, setting: Schema) -> Schema:
        """The table below a key: options of one component, elements of a list by their `use`, or plain options."""
        if "items" in setting:
            kind = setting["items"].get("$ref", "").rpartition("/")[2]
            elements = {
                component["properties"]["use"]["anyOf"][0]["enum"][0]: _table(
                    _ENTRY, self._branch(kind), _named(component, _ENTRY)
                )
                for component in self._components(setting["items"])
            }
            return _table(_ENTRY, named=elements)
        offered: dict[str, Schema] = {}
        for table in self._resolved(setting).get("oneOf", [setting]):
            offered = {**_named(self._resolved(table), _ENTRY), **offered}
        is_component = any(self._components(setting))
        kind = setting.get("$ref", "").rpartition("/")[2]
        return _table(_ENTRY, self._branch(kind) if is_component else _BRANCH, offered)

    def _branch(self, kind: str) -> Schema:
        """A choice between components of a kind, or without `use` one that is merged into the table."""
        name = f"space.choice.{kind}"
        if name not in self.definitions:
            branches: list[Schema] = [{**_DEFINITIONS["space.branch"], "not": {"required": ["use"]}}]
            for member in self._experiment["$defs"][kind]["oneOf"]:
                component = self._resolved(member)
                branches.append(
                    {
                        "type": "object",
                        "description": component.get("description", ""),
                        "properties": {
                            **_named(component, _PART),
                            "use": component["properties"]["use"],
                            "label": _LABEL,
                            "choices": _choices(_BRANCH),
                        },
                        "required": ["use"],
                        "additionalProperties": component.get("additionalProperties", True) and _PART,
                    }
                )
            self.definitions[name] = {"anyOf": branches}
        return {"$ref": f"#/$defs/{name}"}

    def _components(self, schema: Schema) -> Iterator[Schema]:
        for member in self._resolved(schema).get("oneOf", []):
            component = self._resolved(member)
            if "anyOf" in component["properties"].get("use", {}):
                yield component

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return schema if reference is None else self._experiment["$defs"][reference.rpartition("/")[2]]


def _named(table: Schema, content: Schema) -> dict[str, Schema]:
    """The options of a table, each with what it means."""
    options: dict[str, Any] = table.get("properties", {})
    return {
        name: {"description": one.get("description", ""), **content} for name, one in options.items() if name != "use"
    }
