"""What a name selects: in a table with `use`, or inline, by a key of a table that has keys of its own beside it.

Inline are the `mode` of `[vector]`, and `use` of a class of options whose field says so in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from maze_kernel.config import complaints
from maze_kernel.config.fields import OptionField, OptionFields, selection_kind, union_members
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.errors import Location, RequestError
from maze_kernel.selection import Selection

Structure = Callable[..., Any]
"""`structure_options`."""


def inline_field(fields: OptionFields) -> OptionField | None:
    """The field that names the component; None where the table is an ordinary one."""
    return next((field for field in fields.fields if field.inline is not None), None)


def inline_kind(field: OptionField) -> str:
    """The kind of component that such a field names."""
    return next(kind for kind in map(selection_kind, union_members(field.annotation) or (field.annotation,)) if kind)


def structure_inline(
    table: Mapping[Any, Any], fields: OptionFields, field: OptionField, scope: Scope, reader: Reader, inner: Structure
) -> Any:
    """The component such a table selects, None for none, or INVALID with its problems recorded."""
    kind, key = inline_kind(field), field.name
    use = table.get(key, field.inline or None)
    rest = {name: value for name, value in table.items() if name not in fields.names}
    if use is None:
        complaints.missing_key(field, scope, reader)
        return INVALID
    if not isinstance(use, str):
        return complaints.wrong_type(use, str, scope.at(key), reader)
    if use != field.inline:
        return select_component(kind, use, rest, scope, reader, inner, key=key, own=fields)
    before = len(reader.problems)
    advice = f'{key} = "{use}" has no options; maze describe {kind} {key.upper()} lists those of a {key}'
    _refuse_unknown(rest, fields, OptionFields(fields=()), attrs.evolve(scope, advice=advice), reader, None)
    return None if len(reader.problems) == before else INVALID


def select_component(
    kind: str,
    use: str,
    given: Mapping[Any, Any],
    scope: Scope,
    reader: Reader,
    inner: Structure,
    *,
    key: str = "use",
    own: OptionFields | None = None,
) -> Any:
    """The component of a name with its options, or INVALID with the problems recorded.

    Args:
        own: fields of the table itself, where the name is inline.
    """
    origin, before = reader.problems.origin, len(reader.problems)
    location = origin.value((*scope.path, key))
    try:
        choice = reader.choose(kind, use, location)
    except RequestError as error:
        reader.problems.add_error((*scope.path, key), error)
        return INVALID
    whose = Scope(path=scope.path, owner=choice.owner, advice=f"{choice.describe} lists the options")
    label = f'{kind} "{use}"' if key == "use" else f'{kind} {key} "{use}"'
    if own is not None:
        given = _refuse_unknown(given, own, choice.fields, whose, reader, label)
    options = inner(given, choice.fields, whose, reader, label=label)
    if options is INVALID or len(reader.problems) > before:
        return INVALID
    return Selection(
        kind=kind,
        use=use,
        target=choice.target,
        options=options,
        owner=choice.owner,
        location=origin.key(scope.path) if own is None else location,
        places=_places(given, scope, reader),
    )


def _places(given: Mapping[Any, Any], scope: Scope, reader: Reader) -> dict[str, Location]:
    """Where each option stands, and each key of those that are tables."""
    origin = reader.problems.origin
    places = {key: origin.value((*scope.path, key)) for key in given}
    tables = {key: table for key, table in given.items() if isinstance(table, Mapping)}
    return places | {f"{key}.{inner}": origin.key((*scope.path, key, inner)) for key in tables for inner in tables[key]}


def _refuse_unknown(
    rest: Mapping[Any, Any], own: OptionFields, inner: OptionFields, scope: Scope, reader: Reader, label: str | None
) -> dict[Any, Any]:
    """Record the keys that neither the table nor the component has; returns the others."""
    either = attrs.evolve(inner, fields=(*own.fields, *inner.fields))
    known = {key: value for key, value in rest.items() if inner.extra or key in inner.names}
    for key in rest.keys() - known.keys():
        complaints.unknown_key(str(key), either, scope, reader, label)
    return known
