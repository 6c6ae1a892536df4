"""The two leaves of a space that hold values: a list of them, and a range of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maze_kernel.catalog import nearest
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import Problems, show_value
from maze_sweeps.ranges import steps_of
from maze_sweeps.space import Range, Values

LEAVES = "values = [...], low = ... and high = ..., or choices"
_RANGE_KEYS = ("low", "high", "log", "step", "points")


def read_values(table: Mapping[str, Any], at: KeyPath, name: str, path: str, problems: Problems) -> Values | None:
    """A list of values, or None with the problems recorded."""
    before, where, values = len(problems), (*at, "values"), table["values"]
    _refuse_others(table, ("values",), at, path, problems)
    if not isinstance(values, list):
        problems.add(
            where,
            "values is a list",
            at_value=True,
            received=show_value(values),
            help="put the value in square brackets, beside others",
        )
        return None
    if not values:
        problems.add(where, "values is empty: there is nothing to choose", at_value=True, help="list one value or more")
    for i, value in enumerate(values):
        if any(same(value, other) for other in values[:i]):
            problems.add((*where, i), "the value stands there twice", at_value=True, help="keep one of them")
    return Values(name=name, path=path, values=tuple(values)) if len(problems) == before else None


def read_range(table: Mapping[str, Any], at: KeyPath, name: str, path: str, problems: Problems) -> Range | None:
    """A range of numbers, or None with the problems recorded."""
    before = len(problems)
    _refuse_others(table, _RANGE_KEYS, at, path, problems)
    for key in ("low", "high"):
        if key not in table and not any(key in nearest(other, _RANGE_KEYS) for other in table.keys() - {*_RANGE_KEYS}):
            problems.add(at, f"{key} is missing", help=f"add {key} = ... beside the other end")
    for key in ("low", "high", "step"):
        if key in table and type(table[key]) not in (int, float):
            _wrong(problems, at, key, table, "a number")
    if type(table.get("log", False)) is not bool:
        _wrong(problems, at, "log", table, "true or false")
    points = table.get("points", 1)
    if type(points) is not int or points < 1:
        _wrong(problems, at, "points", table, "integer >= 1, how many values a grid tries")
    if len(problems) > before:
        return None
    numbers = [table[key] for key in ("low", "high", "step") if key in table]
    if not all(abs(number) < math.inf for number in numbers):
        return None  # the loader has said so
    _check_numbers(table, at, problems)
    if len(problems) > before:
        return None
    is_integer = all(type(number) is int for number in numbers)
    low, high, *step = numbers if is_integer else map(float, numbers)
    return Range(
        name=name,
        path=path,
        low=low,
        high=high,
        log=table.get("log", False),
        step=step[0] if step else None,
        points=table.get("points"),
        is_integer=is_integer,
    )


def _check_numbers(table: Mapping[str, Any], at: KeyPath, problems: Problems) -> None:
    low, high, step = table["low"], table["high"], table.get("step")
    if low > high:
        problems.add((*at, "low"), f"low = {low} is above high = {high}", at_value=True, help="change the two")
    if table.get("log") and low <= 0:
        problems.add(
            (*at, "low"),
            "a logarithmic range begins above 0",
            at_value=True,
            received=show_value(low),
            expected="number > 0",
            help="raise low, or leave log out",
        )
    if step is None:
        return
    if table.get("log"):
        problems.add((*at, "step"), "a logarithmic range has no steps", help="leave log or step out")
    if step <= 0:
        problems.add(
            (*at, "step"), "a step is above 0", at_value=True, received=show_value(step), help="make it larger"
        )
    elif low <= high and steps_of(low, high, step) < 1 and low != high:
        problems.add(
            (*at, "step"),
            f"no step fits between {low} and {high}",
            at_value=True,
            received=show_value(step),
            help="make it smaller",
        )


def same(one: Any, other: Any) -> bool:
    """Whether two values are one for TOML, in which 1 is not 1.0 and not true."""
    return type(one) is type(other) and bool(one == other)


def _refuse_others(
    table: Mapping[str, Any], allowed: tuple[str, ...], at: KeyPath, path: str, problems: Problems
) -> None:
    for key in table:
        if key not in allowed:
            problems.add(
                (*at, key),
                f"{key} does not belong to what {path} is chosen from",
                expected=", ".join(allowed),
                nearest=nearest(key, allowed),
                help="values stand alone; low and high go together, with log, step and points if wanted",
            )


def _wrong(problems: Problems, at: KeyPath, key: str, table: Mapping[str, Any], expected: str) -> None:
    problems.add(
        (*at, key),
        f"{key} has the wrong value",
        at_value=True,
        received=show_value(table[key]),
        expected=expected,
        help=f"write {key} = ... with {expected}",
    )
