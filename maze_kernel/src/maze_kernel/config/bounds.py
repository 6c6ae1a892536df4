"""What validators ask for, as words for people and as JSON Schema.

The conditions of `maze_kernel.validators` say it themselves, and so does every validator with an attribute `expected`,
a text, and `schema`, JSON Schema keywords. Comparisons and choices of attrs, alone or in lists, are read from
their public attributes; any other validator says nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from maze_kernel.config.fields import show_literal

_SCHEMA_OF_COMPARISON = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}


def expected_by(validator: Any) -> str | None:
    """E.g. ">= 0 and < 1", or None where nothing is known."""
    return " and ".join(text for part in _parts(validator) for text in [_words(part)] if text) or None


def schema_by(validator: Any) -> dict[str, Any]:
    """JSON Schema keywords for the bounds that can be read; `{}` where none can."""
    return {keyword: value for part in _parts(validator) for keyword, value in _schema(part).items()}


def _parts(validator: Any) -> Iterator[Any]:
    """Every condition that must hold: what attrs' objects for lists and `optional` hold in their only field."""
    fields: tuple[Any, ...] = attrs.fields(type(validator)) if attrs.has(type(validator)) else ()
    name = fields[0].name if len(fields) == 1 else ""
    inner = getattr(validator, name) if name == "validator" or name.startswith("_") else None
    for part in inner if isinstance(inner, (tuple, list)) else () if inner is None else (inner,):
        yield from _parts(part)
    if inner is None:
        yield validator


def _words(validator: Any) -> str | None:
    expected = getattr(validator, "expected", None)
    if isinstance(expected, str):
        return expected
    if getattr(validator, "compare_op", None) in _SCHEMA_OF_COMPARISON:
        return f"{validator.compare_op} {validator.bound}"
    options = getattr(validator, "options", None)
    return None if options is None else f"one of {', '.join(map(show_literal, options))}"


def _schema(validator: Any) -> dict[str, Any]:
    if getattr(validator, "schema", None) is not None:
        return dict(validator.schema)
    if getattr(validator, "compare_op", None) in _SCHEMA_OF_COMPARISON:
        return {_SCHEMA_OF_COMPARISON[validator.compare_op]: validator.bound}
    choices = list(getattr(validator, "options", None) or ())
    return {"enum": choices} if choices and all(isinstance(item, (str, int, float, bool)) for item in choices) else {}
