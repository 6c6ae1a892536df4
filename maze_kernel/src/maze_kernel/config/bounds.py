"""What attrs validators ask for, as words for people and as JSON Schema.

Validators of any other make say nothing here, unless they have an attribute `expected`, a text.
"""

from __future__ import annotations

from typing import Any

_SCHEMA_OF_COMPARISON = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}


def expected_by(validator: Any) -> str | None:
    """E.g. ">= 0 and < 1", or None where nothing is known."""
    parts = [text for text in map(_words, _flatten(validator)) if text]
    return " and ".join(parts) or None


def schema_by(validator: Any) -> dict[str, Any]:
    """JSON Schema keywords for the bounds that can be read; `{}` where none can."""
    schema: dict[str, Any] = {}
    for part in _flatten(validator):
        comparison = getattr(part, "compare_op", None)
        if comparison in _SCHEMA_OF_COMPARISON:
            schema[_SCHEMA_OF_COMPARISON[comparison]] = part.bound
        elif type(part).__name__ == "_InValidator":
            choices = list(part.options)
            if all(isinstance(choice, (str, int, float, bool)) for choice in choices):
                schema["enum"] = choices
        elif type(part).__name__ == "_MatchesReValidator":
            schema["pattern"] = f"^(?:{part.pattern.pattern})$"
    return schema


def _flatten(validator: Any) -> list[Any]:
    if validator is None:
        return []
    members = getattr(validator, "_validators", None)
    if type(validator).__name__ == "_AndValidator" and members is not None:
        return [part for member in members for part in _flatten(member)]
    if type(validator).__name__ == "_OptionalValidator":
        return _flatten(validator.validator)
    return [validator]


def _words(validator: Any) -> str | None:
    name = type(validator).__name__
    if getattr(validator, "compare_op", None) in _SCHEMA_OF_COMPARISON:
        return f"{validator.compare_op} {validator.bound}"
    if name == "_InValidator":
        from maze_kernel.config.fields import show_literal

        return "one of " + ", ".join(show_literal(choice) for choice in validator.options)
    if name == "_MinLengthValidator":
        return f"at least {validator.min_length} long"
    if name == "_MaxLengthValidator":
        return f"at most {validator.max_length} long"
    if name == "_MatchesReValidator":
        return f"text that matches {validator.pattern.pattern}"
    if name == "_DeepIterable":
        inner = expected_by(validator.member_validator)
        return f"each {inner}" if inner else None
    return getattr(validator, "expected", None) if not isinstance(validator, type) else None
