"""Schedules of learning rates, ε, noise and the like: a number, or a table from `start` to `end`. No torch here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import attrs

from maze_kernel.validators import Condition, one_of

PART = "part_of_budget"
"""Metadata of an option that runs over a part of the budget: the name of the option with that part."""


@attrs.frozen(kw_only=True)
class Schedule:
    """A value that changes over the run's budget (epochs or environment steps, whichever is used up first)."""

    start: float
    """Value at the beginning of training."""
    end: float = 0.0
    """Value when the budget is used up."""
    shape: Literal["linear", "cosine"] = attrs.field(default="linear", validator=one_of(("linear", "cosine")))
    """Straight line, or half a cosine wave (Loshchilov and Hutter 2017, without restarts)."""


def positive_rate(_instance: Any, attribute: Any, value: float | Schedule) -> None:
    """Validator of a learning rate: a number above 0, or a schedule that is never below it, and not always there."""
    if not isinstance(value, Schedule):
        if value <= 0:
            raise ValueError(f"'{attribute.name}' must be > 0: {value}")
    elif min(value.start, value.end) < 0 or max(value.start, value.end) <= 0:
        raise ValueError(f"'{attribute.name}' must be >= 0 and not 0 throughout: {value.start} to {value.end}")


def throughout(condition: Condition) -> Callable[[Any, Any, float | Schedule], None]:
    """Validator of a number, or of a schedule at its start and its end, and so in between."""

    def validate(_instance: Any, attribute: Any, value: float | Schedule) -> None:
        ends = (value.start, value.end) if isinstance(value, Schedule) else (value,)
        if not all(map(condition.holds, ends)):
            raise ValueError(f"'{attribute.name}' must be {condition.expected}: {' to '.join(map(str, ends))}")

    return validate


def scheduled_value(value: float | Schedule, fraction: float) -> float:
    """The value after `fraction` (0 to 1, clipped) of the budget.

    >>> scheduled_value(0.5, 0.9)
    0.5
    >>> scheduled_value(Schedule(start=1.0, end=0.0), 0.25)
    0.75
    >>> round(scheduled_value(Schedule(start=1.0, end=0.0, shape="cosine"), 0.5), 12)
    0.5
    """
    if not isinstance(value, Schedule):
        return value
    fraction = min(1.0, max(0.0, fraction))
    weight = 1.0 - fraction if value.shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * fraction))
    return value.end + (value.start - value.end) * weight


def moving_schedules(options: Any, path: str = "") -> dict[str, Schedule]:
    """The schedules among a trainer's options and those of tables in them that do not end where they start, by name."""
    if isinstance(options, Schedule):
        return {path: options} if options.start != options.end else {}
    if not attrs.has(type(options)):
        return {}
    found: dict[str, Schedule] = {}
    for attribute in attrs.fields(type(options)):
        found |= moving_schedules(getattr(options, attribute.name), f"{path}.{attribute.name}".lstrip("."))
    return found


def values_over_budget(options: Any, fraction: float, path: str = "") -> dict[str, float]:
    """The values of `moving_schedules` after `fraction` (0 to 1) of the budget, by name.

    An option that is at its end after a part of the budget names the option that says so: `metadata={PART: "…"}`.
    """
    if not attrs.has(type(options)):
        return {}
    found: dict[str, float] = {}
    for attribute in attrs.fields(type(options)):
        value, name = getattr(options, attribute.name), f"{path}.{attribute.name}".lstrip(".")
        part = attribute.metadata.get(PART)
        if not isinstance(value, Schedule):
            found |= values_over_budget(value, fraction, name)
        elif value.start != value.end:
            found[name] = scheduled_value(value, fraction / getattr(options, part) if part else fraction)
    return found


def budget_fraction(*, epoch: float, n_epochs: int, env_steps: int = 0, max_env_steps: int = 0) -> float:
    """How much of the budget is used: the larger share of epochs and of environment steps; 0 without a budget.

    >>> budget_fraction(epoch=10, n_epochs=40, env_steps=600, max_env_steps=1000)
    0.6
    """
    by_epochs = epoch / n_epochs if n_epochs else 0.0
    by_steps = env_steps / max_env_steps if max_env_steps else 0.0
    return min(1.0, max(by_epochs, by_steps))
