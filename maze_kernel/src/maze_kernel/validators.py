"""Conditions on options that say what they ask for: in words for people, and as JSON Schema for editors.

They stand where attrs takes a validator, `attrs.field(default=1, validator=at_least(1))`. Any other callable that attrs
takes works there too; an attribute `expected`, a text, puts what it asks for into messages and reference pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Condition:
    """One condition on the value of an option.

    Attributes:
        expected: what it asks for: ">= 0", "one of "linear", "cosine"".
        schema: the same as JSON Schema keywords; `{}` where these cannot say it.
        holds: whether a value meets it.
    """

    expected: str
    schema: Mapping[str, Any] = attrs.field(factory=dict)
    holds: Callable[[Any], bool] = attrs.field(eq=False, repr=False)

    def __call__(self, _instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        """Called by attrs with a value of the option.

        Raises:
            ValueError: the condition does not hold.
        """
        if not self.holds(value):
            raise ValueError(f"{attribute.name!r} must be {self.expected}: {value!r}")


def at_least(bound: float) -> Condition:
    """A number that is not smaller."""
    return Condition(expected=f">= {bound}", schema={"minimum": bound}, holds=lambda value: value >= bound)


def above(bound: float) -> Condition:
    """A greater number."""
    return Condition(expected=f"> {bound}", schema={"exclusiveMinimum": bound}, holds=lambda value: value > bound)


def at_most(bound: float) -> Condition:
    """A number that is not greater."""
    return Condition(expected=f"<= {bound}", schema={"maximum": bound}, holds=lambda value: value <= bound)


def below(bound: float) -> Condition:
    """A smaller number."""
    return Condition(expected=f"< {bound}", schema={"exclusiveMaximum": bound}, holds=lambda value: value < bound)


def between(low: float, high: float) -> Condition:
    """A number from `low` to `high`, both of them included."""
    return all_of(at_least(low), at_most(high))


def all_of(*conditions: Condition) -> Condition:
    """Every one of them."""
    return Condition(
        expected=" and ".join(condition.expected for condition in conditions),
        schema={keyword: value for condition in conditions for keyword, value in condition.schema.items()},
        holds=lambda value: all(condition.holds(value) for condition in conditions),
    )


def one_of(choices: Iterable[str | float]) -> Condition:
    """One of some texts or numbers."""
    choices = tuple(choices)
    shown = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    return Condition(expected=f"one of {shown}", schema={"enum": list(choices)}, holds=lambda value: value in choices)


def matches(pattern: str) -> Condition:
    """A text that a regular expression matches from its beginning to its end."""
    compiled = re.compile(pattern)
    return Condition(
        expected=f"text that matches {pattern}",
        schema={"pattern": f"^(?:{pattern})$"},
        holds=lambda value: compiled.fullmatch(value) is not None,
    )


def length_at_least(length: int) -> Condition:
    """A text or list with so many characters or elements, or more."""
    return Condition(expected=f"at least {length} long", holds=lambda value: len(value) >= length)


def each(condition: Condition) -> Condition:
    """A list, every element of which meets a condition."""
    return Condition(
        expected=f"each {condition.expected}", holds=lambda value: all(condition.holds(item) for item in value)
    )


def optional(condition: Condition) -> Condition:
    """A condition on a value that may also be absent."""
    return attrs.evolve(condition, holds=lambda value: value is None or condition.holds(value))
