"""Distributions of actions, observations and rewards as they are seen at one place of the stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.events import EpisodeStatistics, EventMethod, EventStatistics
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_wrappers.monitoring_events import ActionEvents, ObservationEvents, RewardEvents
from maze_wrappers.options import MonitoringOptions
from maze_wrappers.samples import EvenSample, live_rows


class Monitoring(Transform):
    """Changes nothing. Discrete choices are all counted; of everything else an even sample of the epoch is kept.

    Void decisions are left out, and with them what was seen and paid there.
    """

    reports = True

    def __init__(self, options: MonitoringOptions) -> None:
        self.options = options
        self._spaces: StructuredSpaces | None = None

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The same spaces."""
        self._spaces = inner
        return inner

    def memory(self, n_envs: int) -> Monitor:
        """What is counted of one batch."""
        assert self._spaces is not None, "bind first"
        return Monitor(self._spaces, n_envs, self.options)


class Monitor:
    """Implements `Memory` and `ReportsBatchStatistics`."""

    def __init__(self, structured_spaces: StructuredSpaces, n_envs: int, options: MonitoringOptions) -> None:
        self._n_envs = n_envs
        self._options = options
        self._counters: dict[PolicyKey, dict[str, Counter]] = {}
        self._actions: dict[PolicyKey, dict[str, EvenSample]] = {}
        self._observations: dict[PolicyKey, dict[str, EvenSample]] = {}
        self._rewards = EvenSample(options.n_samples)
        self._last: Tick | None = None
        for key, space in structured_spaces.action.items() if options.actions else ():
            boxes = {head for head, leaf in space.spaces.items() if isinstance(leaf, spaces.Box)}
            self._counters[key] = {head: Counter(leaf) for head, leaf in space.spaces.items() if head not in boxes}
            self._actions[key] = {head: EvenSample(options.n_samples) for head in boxes}
        for key, space in structured_spaces.observation.items() if options.observations else ():
            self._observations[key] = {name: EvenSample(options.n_samples) for name in space.spaces}

    def reset(self, tick: Tick) -> Tick:
        """Count the first observations."""
        self._observe(tick)
        return tick

    def step(self, actions: Mapping[PolicyKey, ArrayDict], tick: Tick) -> Tick:
        """Count a tick."""
        last, awaiting = self._last, None if self._last is None else self._last.awaiting_reset
        for key, heads in actions.items() if self._options.actions else ():
            for head, value in heads.items():
                counter = self._counters[key].get(head) or self._actions[key][head]
                counter.add(np.asarray(value) if last is None else live_rows(last, key, np.asarray(value)))
        if self._options.rewards:
            self._rewards.add(tick.reward if awaiting is None else tick.reward[~awaiting])
        self._observe(tick)
        return tick

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """Everything since the last call, as a report of the first environment."""
        reports: EpisodeStatistics = []
        own = self._options.name or None
        for key, counters in self._counters.items():
            for head, counter in counters.items():
                for name, counts in counter.drain(head):
                    _report(reports, ActionEvents, ActionEvents.discrete_action, (key, name, own), counts)
        for key, samples in self._actions.items():
            for head, sample in samples.items():
                _report(reports, ActionEvents, ActionEvents.continuous_action, (key, head, own), sample.drain())
        for key, samples in self._observations.items():
            for name, sample in samples.items():
                _report(reports, ObservationEvents, ObservationEvents.observation, (key, name, own), sample.drain())
        _report(reports, RewardEvents, RewardEvents.step_reward, (own,), self._rewards.drain())
        return [[reports] if reports else [], *([] for _ in range(self._n_envs - 1))]

    def _observe(self, tick: Tick) -> None:
        self._last = tick
        for key, samples in self._observations.items():
            if key in tick.groups:
                for name, sample in samples.items():
                    sample.add(live_rows(tick, key, tick.groups[key].observation[name]))


class Counter:
    """How often each choice of a discrete head was taken."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        if isinstance(space, spaces.Discrete):
            sizes, self._start = [int(space.n)], np.array([space.start])
        elif isinstance(space, spaces.MultiDiscrete):
            sizes, self._start = np.asarray(space.nvec).ravel().tolist(), np.asarray(space.start).ravel()
        else:
            sizes = [2] * int(np.prod(space.shape or ()))
            self._start = np.zeros(len(sizes), np.int64)
        self._counts = [np.zeros(size, np.int64) for size in sizes]

    def add(self, actions: np.ndarray) -> None:
        """Count the choices of (m, …) actions."""
        columns = actions.reshape(len(actions), len(self._counts)).astype(np.int64) - self._start
        for counts, column in zip(self._counts, columns.T, strict=True):
            counts += np.bincount(column, minlength=len(counts))

    def drain(self, head: str) -> list[tuple[str, np.ndarray | None]]:
        """Name and counts of each element since the last call; the element's number follows where there are several."""
        names = [head] if len(self._counts) == 1 else [f"{head}_{i}" for i in range(len(self._counts))]
        drained = [counts.copy() if counts.any() else None for counts in self._counts]
        for counts in self._counts:
            counts.fill(0)
        return list(zip(names, drained, strict=True))


def _report(
    reports: EpisodeStatistics, interface: type, event: EventMethod, group: tuple[Any, ...], value: Any
) -> None:
    if value is not None:
        reports.append(EventStatistics(interface.__name__, event, {(None, group): [value]}))
