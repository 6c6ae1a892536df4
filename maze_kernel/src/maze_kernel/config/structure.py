"""Plain data to typed values, strictly: nothing is converted but an integer where a number is declared.

`structure` never raises for what a user wrote: it records the problem and returns INVALID, so that the rest of
the file is read as well.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from maze_kernel.config import complaints
from maze_kernel.config import fields as f
from maze_kernel.config.bounds import expected_by
from maze_kernel.config.given import selection_of_object
from maze_kernel.config.origin import show_path
from maze_kernel.config.problems import show_value
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.config.scalars import checked_number, checked_text, structure_literal, structure_scalar
from maze_kernel.config.selecting import inline_field, select_component, structure_inline
from maze_kernel.config.shapes import TOML_TYPES, fits, names_itself
from maze_kernel.errors import RequestError


def structure(value: Any, annotation: Any, scope: Scope, reader: Reader) -> Any:
    """The value as the annotated type, or INVALID with a problem recorded."""
    if value is None and reader.python and f.is_optional(annotation):
        return None
    if (members := f.union_members(annotation)) is not None:
        return _structure_union(value, annotation, members, scope, reader)
    if (kind := f.selection_kind(annotation)) is not None:
        return structure_selection(value, kind, scope, reader)
    annotation, remarks = f.strip_annotated(annotation)
    if f.OR_OBJECT in remarks and reader.python and not isinstance(value, TOML_TYPES):
        return value
    if annotation in (Any, object):
        return _structure_plain(value, scope, reader)
    if typing.get_origin(annotation) is Literal or f.is_enum(annotation):
        return structure_literal(value, annotation, scope, reader)
    if (items := f.list_members(annotation)) is not None:
        return _structure_list(value, annotation, items, scope, reader)
    if (member := f.table_member(annotation)) is not None:
        return _structure_mapping(value, annotation, member, scope, reader)
    if f.is_options_class(annotation):
        if reader.python and isinstance(value, annotation):
            return value
        if not isinstance(value, Mapping):
            return complaints.wrong_type(value, annotation, scope, reader)
        return structure_options(value, f.fields_of_class(annotation), scope, reader)
    return structure_scalar(value, annotation, scope, reader)


def structure_selection(value: Any, kind: str, scope: Scope, reader: Reader) -> Any:
    """A table with `use` to a Selection. From Python also a name, a Selection or an instance."""
    if reader.python and not isinstance(value, (Mapping, str)):
        return selection_of_object(value, kind, scope, reader)
    if reader.python and isinstance(value, str):
        value = {"use": value}
    names = reader.choices(kind)
    if not isinstance(value, Mapping):
        bare = reader.bare(kind) if isinstance(value, str) and value not in names and ":" not in value else None
        written = f"use = {complaints.toml_name(bare or value)}" + (f' and id = "{value}"' if bare else "")
        reader.problems.add(
            scope.path,
            f"{{path}} selects a {kind} and must be a table",
            at_value=True,
            received=show_value(value),
            expected='a table with use = "..."',
            help=f"write {written} in a table [{show_path(scope.path)}]",
        )
        return INVALID
    use = value.get("use", reader.default(kind))
    if not isinstance(use, str):
        reader.problems.add(
            (*scope.path, "use") if "use" in value else scope.path,
            f"{{path}} does not say which {kind} to use" if use is None else "{path} has the wrong type",
            at_value="use" in value,
            received=None if use is None else show_value(use),
            expected=f"use = one of {complaints.some(names)}" if names else 'use = "..."',
            owner=scope.owner,
            help=f"add use = {complaints.toml_name(next(iter(names), None))}; maze list-plugins shows them all",
        )
        return INVALID
    given = {key: item for key, item in value.items() if key != "use"}
    return select_component(kind, use, given, scope, reader, structure_options)


def structure_options(
    table: Mapping[Any, Any], fields: f.OptionFields, scope: Scope, reader: Reader, *, label: str | None = None
) -> Any:
    """A table to an instance of the options class, or to keyword arguments; every field is judged on its own."""
    before = len(reader.problems)
    scope = attrs.evolve(scope, field=None, takes=fields.names, bounds=None)
    values: dict[str, Any] = {}
    if (inline := inline_field(fields)) is not None:
        values[inline.name] = structure_inline(table, fields, inline, scope, reader, structure_options)
        table = {key: table[key] for key in fields.names if key in table and key != inline.name}
    meant: set[str] = set()
    for key in (key for key in table if key not in fields.names):
        if fields.extra and isinstance(key, str):
            values[key] = structure(table[key], Any, scope.at(key), reader)
        else:
            meant.update(complaints.unknown_key(str(key), fields, scope, reader, label))
    for field in fields.fields:
        if field.name not in table:
            if field.name not in values and field.required and field.name not in meant:
                complaints.missing_key(field, scope, reader)
            continue
        structured = structure(table[field.name], field.annotation, _field_scope(field, fields, scope), reader)
        if structured is not INVALID:
            values[field.name] = structured
    if fields.options_class is None:
        if len(reader.problems) > before:
            return INVALID
        return {**_plain_defaults(fields, scope, reader), **values}
    _check_each(values, table, fields, scope, reader)
    if len(reader.problems) > before:
        return INVALID
    return _construct(fields.options_class, values, scope, reader)


def _field_scope(field: f.OptionField, fields: f.OptionFields, scope: Scope) -> Scope:
    return attrs.evolve(
        scope.at(field.name),
        field=None if fields.options_class is None else (fields.options_class, field.name),
        takes=(),
        bounds=expected_by(getattr(field.attribute, "validator", None)),
        non_finite=field.allows_non_finite,
    )


def _plain_defaults(fields: f.OptionFields, scope: Scope, reader: Reader) -> dict[str, Any]:
    """Defaults of keyword-only parameters that an experiment could have written itself."""
    scratch = reader.scratch()
    defaults = {}
    for field in fields.fields:
        if field.required or field.default is None:
            continue
        as_toml = list(field.default) if isinstance(field.default, tuple) else field.default
        default = structure(as_toml, field.annotation, scope.at(field.name), scratch)
        if default is not INVALID:
            defaults[field.name] = default
    return defaults


def _check_each(
    values: dict[str, Any], given: Mapping[str, Any], fields: f.OptionFields, scope: Scope, reader: Reader
) -> None:
    """Run each field's validator by itself, so that one failure does not hide the next."""
    assert fields.options_class is not None
    partial: Any = object.__new__(fields.options_class)
    known = [field for field in fields.fields if field.name in values or not field.required]
    for field in known:
        object.__setattr__(partial, field.attribute.name, values.get(field.name, field.default))
    complete = len(known) == len(fields.fields)
    for field in known:
        validator = field.attribute.validator if field.attribute.converter is None else None
        if validator is None or field.name not in values.keys() & given.keys():
            continue
        try:
            validator(partial, field.attribute, values[field.name])
        except Exception as error:
            if complete or not isinstance(error, AttributeError):  # else it looked at a field that is missing
                complaints.invalid_value(given[field.name], error, _field_scope(field, fields, scope), reader)


def _construct(options_class: type, values: dict[str, Any], scope: Scope, reader: Reader) -> Any:
    try:
        return options_class(**values)
    except RequestError as error:
        reader.problems.add_error(scope.path, error)
    except Exception as error:
        reader.problems.add(
            scope.path, "{path} is refused: " + complaints.first_argument(error), owner=scope.owner, help=scope.help
        )
    return INVALID


def _structure_union(value: Any, annotation: Any, members: tuple[Any, ...], scope: Scope, reader: Reader) -> Any:
    if not (fitting := [member for member in members if len(members) == 1 or fits(value, member, reader)]):
        return complaints.wrong_type(value, annotation, scope, reader)
    fitting = [m for m in fitting if names_itself(value, m) == max(names_itself(value, other) for other in fitting)]
    if len(fitting) == 1:
        return structure(value, fitting[0], scope, reader)
    tries = []
    for member in sorted(fitting, key=lambda member: member is not type(value)):
        scratch = reader.scratch()
        structured = structure(value, member, scope, scratch)
        if structured is not INVALID:
            return structured
        tries.append(scratch.problems)
    if isinstance(value, (Mapping, list, tuple)):
        reader.problems.take(min(tries, key=len))
        return INVALID
    return complaints.wrong_type(value, annotation, scope, reader)


def _structure_list(value: Any, annotation: Any, items: Any, scope: Scope, reader: Reader) -> Any:
    tables = value if isinstance(value, Mapping) and reader.problems.origin.override(scope.path) else {}
    if tables and all(key == str(n) and isinstance(tables[key], Mapping) for n, key in enumerate(tables)):
        value = [*tables.values()]  # of `--set wrappers.0.use=...`, where no list says what a number is
    if not isinstance(value, list) and not (reader.python and isinstance(value, tuple)):
        return complaints.wrong_type(value, annotation, scope, reader)
    item_type, fixed = items
    if fixed is not None and len(fixed) != len(value):
        expected = f"{len(fixed)} elements: {f.show_type(annotation)}"
        return complaints.wrong_value("has the wrong length", value, expected, scope, reader)
    types = fixed if fixed is not None else (item_type,) * len(value)
    inner = [
        structure(item, member, scope.at(part), reader)
        for part, item, member in zip([*tables] or range(len(value)), value, types, strict=True)
    ]
    if any(item is INVALID for item in inner):
        return INVALID
    return tuple(inner) if (typing.get_origin(annotation) or annotation) is not list else inner


def _structure_mapping(value: Any, annotation: Any, member: Any, scope: Scope, reader: Reader) -> Any:
    if not isinstance(value, Mapping):
        return complaints.wrong_type(value, annotation, scope, reader)
    result = {}
    for key, item in value.items():
        if not isinstance(key, str):
            reader.problems.add(scope.path, f"{{path}} has a key that is not a string: {key!r}", owner=scope.owner)
        result[key] = structure(item, member, scope.at(key), reader) if isinstance(key, str) else INVALID
    return INVALID if any(item is INVALID for item in result.values()) else result


def _structure_plain(value: Any, scope: Scope, reader: Reader) -> Any:
    """Free-form data: a deep copy of tables, lists, strings, numbers and booleans."""
    if isinstance(value, Mapping):
        return _structure_mapping(value, dict, Any, scope, reader)
    if isinstance(value, (list, tuple)):
        return _structure_list(value, list, (Any, None), scope, reader)
    if type(value) is str:
        return checked_text(value, scope, reader)
    if type(value) is bool or (value is None and reader.python):
        return value
    if type(value) in (int, float):
        return checked_number(value, type(value), scope, reader)
    return complaints.wrong_type(value, Any, scope, reader)
