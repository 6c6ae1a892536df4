"""A JSON Schema of every experiment that can be written with what is installed, for completion in editors.

An editor cannot see everything that `maze check` sees: the options behind an import path, and validators that are
not bounds. Whatever `maze check` accepts, the schema accepts, but for required options that a preset gives.
"""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs

from maze_kernel.components import COMPONENT_TYPES, CommandComponent, PresetComponent, fold, load_attribute
from maze_kernel.config import fields as f
from maze_kernel.config.bounds import schema_by
from maze_kernel.config.choices import IMPORT_PATH, Choices, fields_of_entry
from maze_kernel.config.documentation import Texts, texts_of_class, texts_of_target
from maze_kernel.config.experiment import Experiment
from maze_kernel.config.resolved import plain
from maze_kernel.config.selecting import inline_field, inline_kind
from maze_kernel.errors import MazeError
from maze_kernel.selection import Selection

if TYPE_CHECKING:
    from maze_kernel.loader import Kernel

Schema = dict[str, Any]


def schema(kernel: Kernel) -> Schema:
    """JSON Schema, draft 2020-12, of experiments for the plugins of a kernel."""
    builder = SchemaBuilder(catalog=kernel.catalog)
    root = builder.options(f.fields_of_class(Experiment), texts_of_class(Experiment))
    root["anyOf"] = [{"required": ["preset"]}, {"required": root.pop("required")}]  # a preset gives some of these
    for kind in COMPONENT_TYPES.keys() - {CommandComponent.kind, PresetComponent.kind}:  # policies, too
        builder.type_schema(Annotated[Selection, kind])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Maze experiment",
        "description": "One experiment for the plugins installed when this schema was written.",
        **root,
        "$defs": builder.definitions,
    }


@attrs.frozen
class _Inline:
    """A table that names its component by `key`, beside keys of its own."""

    key: str = "use"
    beside: dict[str, Schema] = attrs.field(factory=dict)


_USE = _Inline()


@attrs.define(kw_only=True)
class SchemaBuilder:
    """Makes schemas of tables that share their `definitions`."""

    catalog: Any
    definitions: dict[str, Schema] = attrs.field(factory=dict)

    def options(
        self, fields: f.OptionFields, texts: Texts, use: Schema | None = None, inline: _Inline = _USE
    ) -> Schema:
        """The table of a component (`use` given), be it one of its own or `inline`, or of an options class."""
        properties = dict(inline.beside)
        if use is not None:
            properties[inline.key] = use
        for field in fields.fields:
            properties.setdefault(field.name, self._field(field, texts.fields.get(field.name, "")))
        required = [inline.key] * (use is not None) + [field.name for field in fields.fields if field.required]
        result: Schema = {"type": "object", "properties": properties, "additionalProperties": fields.extra}
        return {**result, "required": required} if required else result

    def _field(self, field: f.OptionField, text: str) -> Schema:
        bounds = schema_by(getattr(field.attribute, "validator", None))
        if f.union_members(field.annotation) is not None:
            bounds.pop("enum", None)
        result = {**self.type_schema(field.annotation), **bounds}
        if text:
            result["description"] = text
        if not field.required and field.default is not None:
            default = plain(field.default)
            if _is_json(default):
                result["default"] = default
        return result

    def type_schema(self, annotation: Any) -> Schema:
        """The schema of a type; one that no TOML value has is left open."""
        if (members := f.union_members(annotation)) is not None:
            schemas = [self.type_schema(member) for member in members]
            return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        if (kind := f.selection_kind(annotation)) is not None:
            return self._selection(kind)
        annotation, _ = f.strip_annotated(annotation)
        if typing.get_origin(annotation) is Literal:
            return {"enum": list(typing.get_args(annotation))}
        if f.is_enum(annotation):
            return {"enum": [member.value for member in annotation]}
        items, member = f.list_members(annotation), f.table_member(annotation)
        if items is not None:
            return self._list(*items)
        if member is not None:
            return {"type": "object", "additionalProperties": self.type_schema(member)}
        if f.is_options_class(annotation):
            return self._options_class(annotation)
        return {"type": _JSON_TYPES[annotation]} if annotation in _JSON_TYPES else {}

    def _list(self, item: Any, fixed: tuple[Any, ...] | None) -> Schema:
        if fixed is None:
            return {"type": "array", "items": self.type_schema(item)}
        items, n = [self.type_schema(member) for member in fixed], len(fixed)
        return {"type": "array", "prefixItems": items, "minItems": n, "maxItems": n}

    def _options_class(self, options_class: type) -> Schema:
        name = _definition_name(f"{options_class.__module__}.{options_class.__qualname__}")
        if name not in self.definitions:
            self.definitions[name] = {}  # a class may hold itself
            texts = texts_of_class(options_class)
            fields = f.fields_of_class(options_class)
            inline = inline_field(fields)
            if inline is None:
                self.definitions[name] = self.options(fields, texts)
            else:
                own = [field for field in fields.fields if field is not inline]
                beside = {other.name: self._field(other, texts.fields.get(other.name, "")) for other in own}
                self.definitions[name] = self._inline_table(inline, _Inline(inline.name, beside), texts)
        return {"$ref": f"#/$defs/{name}"}

    def _inline_table(self, field: f.OptionField, inline: _Inline, texts: Texts) -> Schema:
        """A table that names a component and holds its options beside keys of its own."""
        branches = self._branches(inline_kind(field), [field.inline] if field.inline else [], inline)
        if field.required:
            return {"oneOf": branches}
        nothing: Schema = {"enum": [field.inline], "description": texts.fields.get(field.name, "")}
        properties = {**inline.beside, inline.key: nothing}
        return {"oneOf": [{"type": "object", "properties": properties, "additionalProperties": False}, *branches]}

    def _selection(self, kind: str) -> Schema:
        if kind not in self.definitions:
            self.definitions[kind] = {}
            self.definitions[kind] = {"oneOf": self._branches(kind)}
        return {"$ref": f"#/$defs/{kind}"}

    def _branches(self, kind: str, taken: Sequence[str] = (), inline: _Inline = _USE) -> list[Schema]:
        """A schema for each component of a kind, and one for import paths; `taken` are names of something else."""
        entries = self.catalog.entries(kind)
        names = [entry.component.name for entry in entries]
        default = Choices(self.catalog).default(kind)
        branches: list[Schema] = []
        spellings: list[Schema] = [{"enum": list(taken)}] if taken else []
        for entry in entries:
            name = entry.component.name
            uses = [entry.qualified_name] if names.count(name) > 1 else [name, entry.qualified_name]
            use: Schema = {"anyOf": [{"enum": uses}, {"pattern": _qualified(entry)}]}
            spellings.append(use)
            definition = _definition_name(f"{kind}.{entry.qualified_name}{'' if inline is _USE else f'.{inline.key}'}")
            self.definitions[definition] = self._component(entry, use, inline)
            if name == default:
                self.definitions[definition]["required"].remove("use")
            branches.append({"$ref": f"#/$defs/{definition}"})
        return [*branches, _imported(kind, spellings, inline)]

    def _component(self, entry: Any, use: Schema, inline: _Inline) -> Schema:
        component = entry.component
        use = {**use, "description": f"{component.summary} ({entry.plugin})".strip()}
        try:
            fields = fields_of_entry(self.catalog, entry)
            cls = fields.options_class
            texts = texts_of_class(cls) if cls else texts_of_target(load_attribute(component.target))
        except MazeError as error:
            use["description"] += f" Its options cannot be read: {error.what}"
            return {"type": "object", "properties": {inline.key: use}, "required": [inline.key]}
        return {**self.options(fields, texts, use, inline), "description": component.summary or texts.summary}


def _definition_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", ".", text)


def _qualified(entry: Any) -> str:
    """The pattern of a component's name behind any spelling of its plugin's, all of which `fold` makes one."""

    def spelt(name: str) -> str:
        dashes = "[-_.\\s]+"
        return "".join(dashes if c == "-" else f"[{c}{c.upper()}]" if c.isalpha() else re.escape(c) for c in fold(name))

    owners = dict.fromkeys(map(spelt, (entry.plugin.name, entry.plugin.distribution)))
    return f"^({'|'.join(owners)}):{entry.component.name}$"


def _imported(kind: str, spellings: list[Schema], inline: _Inline) -> Schema:
    use: Schema = {
        "type": "string",
        "pattern": f"^{IMPORT_PATH.pattern}$",
        "description": f'Any importable {kind}: "package.module:Class"; its keyword-only parameters are the options.',
    }
    if spellings:
        use["not"] = {"anyOf": spellings}
    return {"type": "object", "properties": {**inline.beside, inline.key: use}, "required": [inline.key]}


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, (str, int))


_JSON_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}
