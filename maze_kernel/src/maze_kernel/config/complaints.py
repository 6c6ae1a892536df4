"""The messages about wrong values and keys: what each says, received, expected, and the next step."""

from __future__ import annotations

import math
from typing import Any

from maze_kernel.catalog import nearest
from maze_kernel.config import fields as f
from maze_kernel.config.bounds import expected_by
from maze_kernel.config.experiment import Experiment
from maze_kernel.config.origin import show_path
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import show_value
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.errors import RequestError


def expected_text(annotation: Any, scope: Scope) -> str:
    """The type with its bounds: "number > 0"."""
    return f.show_bounded_type(annotation, scope.bounds)


def wrong_type(value: Any, annotation: Any, scope: Scope, reader: Reader) -> Any:
    """Record a value of another type; returns INVALID."""
    help_: str | None
    if annotation is Any:
        expected, help_ = "a string, number, boolean, list or table", "write it as a string"
    else:
        expected, help_ = expected_text(annotation, scope), _how_to_write(value, annotation, scope) or scope.help
    return wrong_value("has the wrong type", value, expected, scope, reader, help=help_)


def wrong_value(what: str, value: Any, expected: str | None, scope: Scope, reader: Reader, **details: Any) -> Any:
    """Record what is wrong with a value; returns INVALID."""
    details = {"owner": scope.owner, "help": scope.help, **details}
    received = show_value(value)
    reader.problems.add(scope.path, f"{{path}} {what}", at_value=True, received=received, expected=expected, **details)
    return INVALID


def _how_to_write(value: Any, annotation: Any, scope: Scope) -> str | None:
    """A spelling of the same value in the type that is wanted, where it is obvious."""
    members = f.union_members(annotation) or (f.strip_annotated(annotation)[0],)
    if isinstance(value, str):
        is_boolean = bool in members and value in ("true", "false")
        is_number = (int in members or float in members) and _is_number(value, integral=float not in members)
        if is_boolean or is_number:
            return f"write {value} without quotes"
    if type(value) is float and int in members and value.is_integer() and abs(value) < 2**53:
        return f"write {int(value)}"
    if type(value) in (bool, int, float) and str in members:
        return f'write "{str(value).lower()}"'
    item = f.list_members(annotation)
    if item is not None and not isinstance(value, (list, dict)):
        return "write the value in square brackets"
    if item is not None and isinstance(value, dict) and f.selection_kind(item[0]) is not None:
        return f"write [[{show_path(scope.path)}]] with two brackets"
    return None


def _is_number(text: str, *, integral: bool) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and text.strip() == text and (not integral or text.lstrip("+-").isdecimal())


def unknown_key(key: str, fields: f.OptionFields, scope: Scope, reader: Reader, label: str | None) -> tuple[str, ...]:
    """Records it; returns the names that may have been meant, which are then not reported as missing."""
    whose = label or (f"[{show_path(scope.path)}]" if scope.path else "an experiment")
    known = {**getattr(fields.options_class, "ALIASES", {}), **dict.fromkeys(fields.positional, "")}
    near = (known[key],) if key in known else nearest(key, fields.names)  # a word that is known is not misspelt
    near = tuple(name for name in near if name.partition(".")[0] in fields.names)
    home = None if near else _kernel_table_with(key)
    help_ = scope.help if home is None else f"{key} belongs in [{home}]"
    if key in fields.positional:
        help_ = f"make {key} keyword-only: put * before it in the signature"
    reader.problems.add(
        (*scope.path, key),
        f"{{path}} is not an option of {whose}",
        owner=scope.owner,
        nearest=near,
        expected=None if fields.names else "no options",
        help=help_,
    )
    return near


def _kernel_table_with(key: str) -> str | None:
    """The kernel's own table that has an option of this name: `n_envs` belongs in [vector]."""
    of_file = f.fields_of_class(Experiment)
    for table in () if key in of_file.names else of_file.fields:
        if f.is_options_class(table.annotation) and key in f.fields_of_class(table.annotation).names:
            return table.name
    return None


def missing_key(field: f.OptionField, scope: Scope, reader: Reader) -> None:
    """Record a required key that its table does not have."""
    expected = expected_by(getattr(field.attribute, "validator", None))
    kind = f.selection_kind(field.annotation)
    if kind is not None and not scope.path:
        help_ = f"add a table [{field.name}] with use = {toml_name(next(iter(reader.choices(kind)), None))}"
    else:
        help_ = f"add {field.name} = ... {_in_table(scope.path) if scope.path else 'at the top of the file'}"
    reader.problems.add(
        scope.path,
        f"{show_path((*scope.path, field.name))} is missing",
        expected=f.show_bounded_type(field.annotation, expected),
        owner=scope.owner,
        help=help_,
    )


def _in_table(path: KeyPath) -> str:
    """In which table, as it is written: "in [trainer]", "in the first [[loggers]] table"."""
    name, last = show_path(tuple(part for part in path if not isinstance(part, int))), path[-1]
    if not isinstance(last, int):
        return f"in [{name}]"
    return f"in the {('first', 'second', 'third')[last] if last < 3 else f'{last + 1}th'} [[{name}]] table"


def invalid_value(value: Any, error: Exception, scope: Scope, reader: Reader) -> None:
    """Record a value that its field's validator refused."""
    reason = first_argument(error)
    reader.problems.add(
        scope.path,
        "{path} is out of range" if scope.bounds else f"{{path}}: {reason}",
        at_value=True,
        received=show_value(value),
        expected=scope.bounds,
        owner=scope.owner,
        help=(error.help if isinstance(error, RequestError) else None) or scope.help,
    )


def first_argument(error: Exception) -> str:
    """An error's message without the objects that attrs puts behind it."""
    if isinstance(error, RequestError) or not error.args:
        return str(getattr(error, "what", error))
    return str(error.args[0])


def some(names: tuple[str, ...]) -> str:
    """The first few names, quoted."""
    shown = ", ".join(f'"{name}"' for name in names[:6])
    return f"{shown}, …" if len(names) > 6 else shown


def toml_name(value: Any) -> str:
    """A name as `use` takes it, or a gap to fill."""
    return f'"{value}"' if isinstance(value, str) else '"..."'
