"""From records to step, episode and epoch statistics.

One `EpisodeAggregator` an environment turns each step's records into values and gives, at the end, the episode's
statistics as data that travels between processes. One `EpochAggregator` reduces those of all environments to the
tagged statistics that loggers write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from maze_kernel.contracts.events import EpisodeStatistics, EventMethod, EventRecord, EventStatistics, Group, Samples
from maze_kernel.errors import MazeError
from maze_runtime.events.declaration import Level, StatisticRule, attributes_of, events_of, rules_of


def joined_episodes(first: Sequence[EpisodeStatistics], second: Sequence[EpisodeStatistics]) -> list[EpisodeStatistics]:
    """Two reports of the episodes of one environment as one: the statistics of an episode stand together."""
    return [[*own, *more] for own, more in zip_longest(first, second, fillvalue=())]


class EpisodeAggregator:
    """Collects the events of one episode: sorted by event as they come in, reduced once an event, not once a step."""

    def __init__(self) -> None:
        self._events: dict[tuple[type, EventMethod], _EpisodeEvent] = {}
        self._by_method: dict[EventMethod, _EpisodeEvent] = {}
        self._interfaces: set[type] = set()

    def add_step(self, records: Sequence[EventRecord]) -> None:
        """Take the records of one environment step."""
        self.add_steps(records, [len(records)])

    def add_steps(self, records: Sequence[EventRecord], ends: Sequence[int]) -> None:
        """Take the records of several environment steps.

        Args:
            records: of all steps, in order.
            ends: for each step how many records there are up to its end.
        """
        by_method = self._by_method
        for record, step in zip(
            records, np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0)).tolist(), strict=True
        ):
            event = by_method.get(record.event)
            if event is None or event.interface is not record.interface:
                event = by_method[record.event] = self._event(record.interface, record.event)
            event.attributes.append(record.attributes)
            event.steps.append(step)
        for event in self._events.values():
            if event.steps:
                event.end_steps()

    def finish(self, interfaces: Iterable[type] = ()) -> EpisodeStatistics:
        """The statistics of the episode; the next one starts empty.

        Args:
            interfaces: whose events might have happened. An event that did not, counts as zero where its episode
                statistic is a `sum` or `len`.
        """
        for interface in interfaces:
            if interface not in self._interfaces:
                self._interfaces.add(interface)
                for event in events_of(interface).values():
                    self._event(interface, event)
        statistics = [event.finish() for event in self._events.values()]
        return [event for event in statistics if event.values]

    def discard(self) -> None:
        """Forget the unfinished episode."""
        for event in self._events.values():
            event.episode.clear()

    def _event(self, interface: type, event: EventMethod) -> _EpisodeEvent:
        key = (interface, event)
        if key not in self._events:
            self._events[key] = _EpisodeEvent(interface, event)
        return self._events[key]


class EpochAggregator:
    """Collects episodes and gives the epoch's statistics.

    Attributes:
        order: events as "Interface/event", in the order in which statistics list them: that of their first episode. A
            resumed run gets that of the run before, so that both write the same lines.
    """

    def __init__(self) -> None:
        self.order: list[str] = []
        self._events: dict[tuple[str, str], _EpochEvent] = {}

    def add_episodes(self, episodes: Iterable[EpisodeStatistics]) -> None:
        """Take finished episodes, of any environment."""
        for episode in episodes:
            for statistics in episode:
                # By name: a method that came from another process may be a copy.
                key = (statistics.interface, statistics.event.__name__)
                if key not in self._events:
                    self._events[key] = _EpochEvent(statistics.event)
                    if "/".join(key) not in self.order:
                        self.order.append("/".join(key))
                _extend(self._events[key].samples, statistics.values)

    def mean_so_far(self, interface: str, event: str) -> float | None:
        """Of the numbers that episodes of the epoch reported for an event; None without any."""
        if (interface, event) not in self._events:
            return None
        values = [value for own in self._events[interface, event].samples.values() for value in own]
        return float(np.mean(values)) if values else None

    def reduce(self, *, draw: bool = True) -> dict[str, Any]:
        """`Interface/event/output/group…` to number, list or array (histogram), or figure; the next epoch starts empty.

        Args:
            draw: make figures; otherwise the values they would show.
        """
        tagged: dict[str, Any] = {}
        for interface, event in sorted(self._events, key=lambda key: self.order.index("/".join(key))):
            state = self._events[interface, event]
            for (output, group), value in state.finish().items():
                parts = [interface, event, output, *(part for part in group if part is not None)]
                value = value.item() if isinstance(value, np.generic) else value
                tag = "/".join(str(part) for part in parts if part is not None)
                tagged[tag] = state.drawn(output, group, value) if draw else value
        return tagged


class _EpisodeEvent:
    """One event in the episode of one environment."""

    def __init__(self, interface: type, event: EventMethod) -> None:
        rules = rules_of(event)
        self.interface, self.event, self.rules = interface, event, rules
        self.attributes: list[dict[str, Any]] = []
        self.steps: list[int] = []
        self.episode: Samples = {}
        self.cumulative = any(rule.cumulative for rule in rules.of(Level.EPISODE))
        self._history: Samples = {}
        self._step_rules = rules.of(Level.STEP)
        self._episode_rules = rules.of(Level.EPISODE)
        self._zeros: dict[tuple[str | None, Group], Any] = {
            (rule.output_name, ()): 0
            for rule in self._episode_rules
            if rule.reduce in (sum, len) and not rule.cumulative and not rules.grouping
        }
        self._names = [name for name in attributes_of(event) if name not in rules.grouping]
        # The usual declaration needs neither names nor groups: one list of the bare records' reductions.
        self._plain = not rules.grouping and all(rule.input_name is None for rule in self._step_rules)

    def end_steps(self) -> None:
        """Reduce what was collected, step by step; steps without this event add nothing."""
        attributes, steps = self.attributes, self.steps
        self.attributes, self.steps = [], []
        if not self._step_rules:
            _extend(self.episode, self._samples(attributes))
        elif not self._plain:
            for records in _by_step(attributes, steps):
                values = _apply(self._step_rules, self._samples(records), self)
                _extend(self.episode, {key: [value] for key, value in values.items()})
        else:
            for rule in self._step_rules:
                self.episode.setdefault((rule.output_name, ()), []).extend(self._step_values(rule, attributes, steps))

    def _step_values(self, rule: StatisticRule, attributes: list[dict[str, Any]], steps: list[int]) -> Iterable[Any]:
        if rule.reduce is len:
            return Counter(steps).values()
        values = self._values(attributes)
        if rule.reduce is None and len(set(steps)) == len(steps):
            return values
        return [_reduced(rule, group, self.event) for group in _by_step(values, steps)]

    def finish(self) -> EventStatistics:
        values = self.episode
        if self.cumulative:
            _extend(self._history, values)
        if self._episode_rules:
            outputs = self._zeros | _apply(self._episode_rules, values, self, self._history)
            values = {key: [value] for key, value in outputs.items()}
        self.episode = {}
        return EventStatistics(self.interface.__name__, self.event, values)

    def _samples(self, records: list[dict[str, Any]]) -> Samples:
        """Values by attribute, and under None the only attribute or a dict of all."""
        samples: Samples = {}
        for attributes in records:
            group = tuple(attributes[name] for name in self.rules.grouping)
            samples.setdefault((None, group), []).extend(self._values([attributes]))
            for name in self._names:
                samples.setdefault((name, group), []).append(attributes[name])
        return samples

    def _values(self, records: list[dict[str, Any]]) -> list[Any]:
        """The only attribute of each record, or a dict of all."""
        if len(self._names) != 1:
            return records
        (name,) = self._names
        return [attributes[name] for attributes in records]


class _EpochEvent:
    """One event in the episodes of one epoch."""

    def __init__(self, event: EventMethod) -> None:
        rules = rules_of(event)
        self.event, self.rules = event, rules
        self.samples: Samples = {}
        self._history: Samples = {}
        self._cumulative = any(rule.cumulative for rule in rules.of(Level.EPOCH))

    def finish(self) -> dict[tuple[str | None, Group], Any]:
        if self._cumulative:
            _extend(self._history, self.samples)
        values = _apply(self.rules.of(Level.EPOCH), self.samples, self, self._history)
        self.samples = {}
        return values

    def drawn(self, output: str | None, group: Group, value: Any) -> Any:
        plots = [plot for plot in self.rules.plots if plot.input_name == output]
        return plots[0].create_figure(value, group) if plots else value


def _apply(
    rules: Iterable[StatisticRule],
    samples: Samples,
    owner: _EpisodeEvent | _EpochEvent,
    history: Samples | None = None,
) -> dict[tuple[str | None, Group], Any]:
    """Every rule on the values it reads, by (output name, group)."""
    outputs = {}
    for rule in rules:
        source = history if rule.cumulative and history is not None else samples
        for group, values in _pooled(rule, source, owner.rules.grouping).items():
            outputs[rule.output_name, group] = _reduced(rule, values, owner.event)
    return outputs


def _pooled(rule: StatisticRule, samples: Samples, grouping: tuple[str, ...]) -> Mapping[Group, list[Any]]:
    pooled: dict[Group, list[Any]] = {}
    for (name, group), values in samples.items():
        if name == rule.input_name:
            if rule.group_by is not None:
                group = tuple(
                    part if attribute == rule.group_by else None
                    for attribute, part in zip(grouping, group, strict=True)
                )
            pooled.setdefault(group, []).extend(values)
    return pooled


def _reduced(rule: StatisticRule, values: list[Any], event: EventMethod) -> Any:
    if rule.reduce is not None:
        return rule.reduce(values)
    if len(values) > 1:
        raise MazeError(
            f"event {event.__qualname__} has several values where its {rule.level.value} statistic takes one",
            received=f"{len(values)} values",
            help=f"give define_{rule.level.value}_stats a function that reduces them, such as sum",
        )
    return values[0]


def _by_step(values: list[Any], steps: list[int]) -> list[list[Any]]:
    groups: dict[int, list[Any]] = {}
    for value, step in zip(values, steps, strict=True):
        groups.setdefault(step, []).append(value)
    return list(groups.values())


def _extend(target: Samples, source: Samples) -> None:
    for key, values in source.items():
        target.setdefault(key, []).extend(values)
