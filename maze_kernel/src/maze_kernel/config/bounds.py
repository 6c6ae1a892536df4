"""What validators ask for, as words for people and as JSON Schema.

The conditions of `maze_kernel.validators` say it themselves, and so does every validator with an attribute `expected`,
a text. Of those of attrs it is read from their public attributes; any other validator says nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from maze_kernel.config.fields import show_literal

_SCHEMA_OF_COMPARISON = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}


def expected_by(validator: Any) -> str | None:
    """E.g. ">= 0 and < 1", or None where nothing is known."""
    parts = [text for text in map(_words, _flatten(validator)) if text]
    return " and ".join(parts) or None


def schema_by(validator: Any) -> dict[str, Any]:
    """JSON Schema keywords for the bounds that can be read; `{}` where none can."""
    return {keyword: value for part in _flatten(validator) for keyword, value in _schema(part).items()}


def _flatten(validator: Any) -> list[Any]:
    """Every condition that must hold: the members of a list of validators, and what stands in `optional`."""
    if validator is None or isinstance(validator, type):
        return []
    if _says(validator, "validator") and not _says(validator, "msg"):
        return _flatten(validator.validator)
    members = _members(validator)
    return [part for member in members for part in _flatten(member)] if members else [validator]


def _members(validator: Any) -> tuple[Any, ...]:
    """Of a list of validators attrs makes an object whose only field, which is not public, holds them."""
    names = [field.name for field in attrs.fields(type(validator))] if attrs.has(type(validator)) else []
    if len(names) != 1 or not names[0].startswith("_"):
        return ()
    members = getattr(validator, names[0])
    return tuple(members) if isinstance(members, (tuple, list)) and all(map(callable, members)) else ()


def _words(validator: Any) -> str | None:
    if _says(validator, "expected"):
        return validator.expected if isinstance(validator.expected, str) else None
    if _compares(validator):
        return f"{validator.compare_op} {validator.bound}"
    if _says(validator, "options"):
        return "one of " + ", ".join(show_literal(choice) for choice in validator.options)
    if _says(validator, "min_length"):
        return f"at least {validator.min_length} long"
    if _says(validator, "max_length"):
        return f"at most {validator.max_length} long"
    if _matches_whole(validator):
        return f"text that matches {validator.pattern.pattern}"
    if _says(validator, "member_validator"):
        inner = expected_by(validator.member_validator)
        return f"each {inner}" if inner else None
    return None


def _schema(validator: Any) -> Mapping[str, Any]:
    if _says(validator, "expected", "schema"):
        schema: Mapping[str, Any] = validator.schema
        return schema
    if _compares(validator):
        return {_SCHEMA_OF_COMPARISON[validator.compare_op]: validator.bound}
    if _says(validator, "options"):
        choices = list(validator.options)
        return {"enum": choices} if all(isinstance(choice, (str, int, float, bool)) for choice in choices) else {}
    if _matches_whole(validator):
        return {"pattern": f"^(?:{validator.pattern.pattern})$"}
    return {}


def _compares(validator: Any) -> bool:
    return _says(validator, "compare_op", "bound") and validator.compare_op in _SCHEMA_OF_COMPARISON


def _matches_whole(validator: Any) -> bool:
    """`matches_re` may also look for a match anywhere, which the pattern alone does not tell."""
    return _says(validator, "pattern", "match_func") and getattr(validator.match_func, "__name__", "") == "fullmatch"


def _says(validator: Any, *names: str) -> bool:
    return all(hasattr(validator, name) for name in names)
