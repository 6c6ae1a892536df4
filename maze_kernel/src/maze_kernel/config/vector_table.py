"""The `[vector]` table: `n_envs`, the name of a vector mode, and beside them the options of that mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from maze_kernel.config import complaints
from maze_kernel.config.choices import KERNEL_OWNER
from maze_kernel.config.experiment import AUTO_MODE, Experiment, VectorOptions
from maze_kernel.config.fields import OptionFields, fields_of_class
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.config.structure import structure_options
from maze_kernel.errors import RequestError
from maze_kernel.selection import Selection

_FIELDS = fields_of_class(VectorOptions)
_MODE = "mode"
_OWN = attrs.evolve(_FIELDS, fields=tuple(field for field in _FIELDS.fields if field.name != _MODE))


def structure_vector(table: Any, reader: Reader) -> Any:
    """The table as `VectorOptions`, or INVALID with its problems recorded."""
    scope = Scope(path=("vector",), owner=KERNEL_OWNER, field=(Experiment, "vector"))
    if reader.python and isinstance(table, VectorOptions):
        return table
    if not isinstance(table, Mapping):
        return complaints.wrong_type(table, VectorOptions, scope, reader)
    own = structure_options({key: table[key] for key in _OWN.names if key in table}, _OWN, scope, reader)
    mode = _structure_mode(table, scope, reader)
    return INVALID if own is INVALID or mode is INVALID else attrs.evolve(own, mode=mode)


def _structure_mode(table: Mapping[Any, Any], scope: Scope, reader: Reader) -> Any:
    use = table.get(_MODE, AUTO_MODE)
    rest = {key: value for key, value in table.items() if key not in _FIELDS.names}
    if not isinstance(use, str):
        return complaints.wrong_type(use, str, attrs.evolve(scope.at(_MODE), field=(VectorOptions, _MODE)), reader)
    before = len(reader.problems)
    if use == AUTO_MODE:
        advice = 'mode = "auto" has no options; maze describe vector MODE lists those of a mode'
        _refuse_unknown(rest, OptionFields(fields=()), attrs.evolve(scope, advice=advice), reader, None)
        return None if len(reader.problems) == before else INVALID
    location = reader.problems.origin.value((*scope.path, _MODE))
    try:
        choice = reader.choose("vector", use, location)
    except RequestError as error:
        reader.problems.add_error((*scope.path, _MODE), error)
        return INVALID
    inner = Scope(path=scope.path, owner=choice.owner, advice=f"{choice.describe} lists the options")
    known = _refuse_unknown(rest, choice.fields, inner, reader, f'vector mode "{use}"')
    options = structure_options(known, choice.fields, inner, reader)
    if options is INVALID or len(reader.problems) > before:
        return INVALID
    places = {key: reader.problems.origin.value((*scope.path, key)) for key in known}
    return Selection(
        kind="vector",
        use=use,
        target=choice.target,
        options=options,
        owner=choice.owner,
        location=location,
        places=places,
    )


def _refuse_unknown(
    rest: Mapping[Any, Any], fields: OptionFields, scope: Scope, reader: Reader, label: str | None
) -> dict[Any, Any]:
    """Record the keys that neither the table nor the mode has; returns the others."""
    either = attrs.evolve(fields, fields=(*_FIELDS.fields, *fields.fields))
    known = {key: value for key, value in rest.items() if fields.extra or key in fields.names}
    for key in rest.keys() - known.keys():
        complaints.unknown_key(str(key), either, scope, reader, label)
    return known
