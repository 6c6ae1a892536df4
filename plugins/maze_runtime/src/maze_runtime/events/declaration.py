"""Decorators that say how an event becomes statistics, and the reading of what they left on an event method.

An event interface is a class without behaviour; each of its public methods is one event. Statistics are made in
three steps: records of one environment step to step statistics, step statistics of one episode to episode statistics,
episode statistics of one epoch to epoch statistics, which loggers write.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs
import numpy as np

from maze_kernel.contracts.events import EventMethod

MethodT = TypeVar("MethodT", bound=EventMethod)

Reduce = Callable[[list[Any]], Any] | None
"""A list of values to one; None: there is at most one value, which is kept as it is."""

_MARK = "__maze_event__"


class Level(enum.Enum):
    """Over what a statistic is taken."""

    STEP = "step"
    EPISODE = "episode"
    EPOCH = "epoch"


@attrs.frozen(kw_only=True)
class StatisticRule:
    """One decorator: how values of the level below become one value of this level."""

    level: Level
    reduce: Reduce
    input_name: str | None
    output_name: str | None
    group_by: str | None
    cumulative: bool


@attrs.frozen(kw_only=True)
class Plot:
    """One `define_plot`: a figure in place of the epoch statistic called `input_name`."""

    create_figure: Callable[[Any, tuple[Any, ...]], Any]
    input_name: str | None


@attrs.frozen(kw_only=True)
class EventRules:
    """Everything the decorators of one event say, in the order they are read from top to bottom."""

    rules: tuple[StatisticRule, ...] = ()
    grouping: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()

    def of(self, level: Level) -> tuple[StatisticRule, ...]:
        """The rules of one level."""
        return tuple(rule for rule in self.rules if rule.level is level)


def rules_of(event: EventMethod) -> EventRules:
    """What the decorators of an event say; nothing where it has none."""
    rules: EventRules = getattr(event, _MARK, EventRules())
    return rules


def define_step_stats(
    reduce_function: Reduce, input_name: str | None = None, output_name: str | None = None, group_by: str | None = None
) -> Callable[[MethodT], MethodT]:
    """The events of one environment step to one value.

    Args:
        reduce_function: gets the list of values; `len` counts events. None: at most one event a step.
        input_name: the attribute whose values are reduced. Without it the only attribute, or a dict of all where
            there are several.
        output_name: names the statistic, where an event has several.
        group_by: reduce for each value of this one attribute of `define_stats_grouping`, all others pooled.
    """
    return _rule(Level.STEP, reduce_function, input_name, output_name, group_by, False)


def define_episode_stats(
    reduce_function: Reduce,
    input_name: str | None = None,
    output_name: str | None = None,
    group_by: str | None = None,
    cumulative: bool = False,
) -> Callable[[MethodT], MethodT]:
    """The step statistics of one episode to one value.

    Args:
        reduce_function: as in `define_step_stats`. A step without events adds no value; an episode without any is
            0 where this is `sum` or `len`, and has no value otherwise.
        input_name: `output_name` of the step statistic; without step statistics, an attribute of the events.
        output_name: names the statistic, where an event has several.
        group_by: as in `define_step_stats`.
        cumulative: reduce over all episodes so far, not this one alone.
    """
    return _rule(Level.EPISODE, reduce_function, input_name, output_name, group_by, cumulative)


def define_epoch_stats(
    reduce_function: Reduce,
    input_name: str | None = None,
    output_name: str | None = None,
    group_by: str | None = None,
    cumulative: bool = False,
) -> Callable[[MethodT], MethodT]:
    """The episode statistics of one epoch to one value, which loggers write.

    Args:
        reduce_function: as in `define_step_stats`. An episode without a value adds none; returning a list or
            an array makes a histogram, lists in it joined; `histogram` is such a function.
        input_name: `output_name` of the episode statistic; without episode statistics, that of the level below.
        output_name: last part of the tag `Interface/event/output_name`.
        group_by: as in `define_step_stats`.
        cumulative: reduce over all epochs so far; written again in epochs that bring nothing new.
    """
    return _rule(Level.EPOCH, reduce_function, input_name, output_name, group_by, cumulative)


def define_stats_grouping(*attributes: str) -> Callable[[MethodT], MethodT]:
    """Statistics are taken apart for each combination of these attributes, which end up in the tag."""

    def mark(method: MethodT) -> MethodT:
        _check_attributes(method, attributes)
        setattr(method, _MARK, attrs.evolve(rules_of(method), grouping=attributes))
        return method

    return mark


def define_plot(
    create_figure_function: Callable[[Any, tuple[Any, ...]], Any], input_name: str | None = None
) -> Callable[[MethodT], MethodT]:
    """A figure in place of an epoch statistic.

    Args:
        create_figure_function: called with the value of the epoch statistic and its group; gives a matplotlib figure.
        input_name: `output_name` of that epoch statistic.
    """

    def mark(method: MethodT) -> MethodT:
        rules = rules_of(method)
        plot = Plot(create_figure=create_figure_function, input_name=input_name)
        setattr(method, _MARK, attrs.evolve(rules, plots=(plot, *rules.plots)))
        return method

    return mark


def histogram(values: list[Any]) -> np.ndarray:
    """A `reduce_function`: all values in one array (n,), those of lists and arrays in it joined."""
    parts = [histogram(list(value)) if isinstance(value, (list, tuple)) else np.ravel(value) for value in values]
    return np.concatenate(parts) if parts else np.zeros(0)


def events_of(interface: type) -> Mapping[str, EventMethod]:
    """The events of an interface by name: its public methods, inherited ones too.

    Raises:
        TypeError: a class without a public method.
    """
    events = {
        name: method for name, method in inspect.getmembers(interface, inspect.isfunction) if not name.startswith("_")
    }
    if not events:
        raise TypeError(f"{interface.__name__} is no event interface: it has no public method")
    return events


def attributes_of(event: EventMethod) -> tuple[str, ...]:
    """The names of an event's parameters, without self."""
    return tuple(inspect.signature(event).parameters)[1:]


def _rule(
    level: Level,
    reduce: Reduce,
    input_name: str | None,
    output_name: str | None,
    group_by: str | None,
    cumulative: bool,
) -> Callable[[MethodT], MethodT]:
    rule = StatisticRule(
        level=level,
        reduce=reduce,
        input_name=input_name,
        output_name=output_name,
        group_by=group_by,
        cumulative=cumulative,
    )

    def mark(method: MethodT) -> MethodT:
        rules = rules_of(method)
        if any(other.level is level and other.output_name == output_name for other in rules.rules):
            raise TypeError(f"{method.__qualname__} has two {level.value} statistics with output_name {output_name!r}")
        _check_attributes(method, () if group_by is None else (group_by,))
        setattr(method, _MARK, attrs.evolve(rules, rules=(rule, *rules.rules)))
        return method

    return mark


def _check_attributes(method: EventMethod, names: tuple[str, ...]) -> None:
    known = attributes_of(method)
    for name in names:
        if name not in known:
            raise TypeError(f"{method.__qualname__} has no attribute {name!r}, only {', '.join(known) or 'none'}")
