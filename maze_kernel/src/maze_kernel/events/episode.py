"""The events of one environment, step by step and episode by episode: what a Maze environment keeps of them."""

from __future__ import annotations

from collections import deque
from typing import Any

from maze_kernel.events.aggregation import EpisodeAggregator, EpisodeStatistics
from maze_kernel.events.kpi import BaseEnvEvents, KpiCalculator
from maze_kernel.events.pubsub import Pubsub
from maze_kernel.events.records import EpisodeEventLog, EventRecord

MAX_EPISODES = 1000
"""Finished episodes that are kept until somebody drains them; older ones are dropped."""


class EpisodeRecorder:
    """Listens to all topics of an environment.

    Attributes:
        step_events: those of the environment step in progress, or of the last one.
        log: of the episode so far; kept only where there is a KPI calculator or `keep_log` is set.
    """

    def __init__(self, pubsub: Pubsub, kpi_calculator: KpiCalculator | None = None, *, keep_log: bool = False) -> None:
        self.step_events: list[EventRecord] = pubsub.record()
        self.log = EpisodeEventLog()
        self._pubsub = pubsub
        self._kpi_calculator = kpi_calculator
        self._keep_log = keep_log or kpi_calculator is not None
        self._aggregator = EpisodeAggregator()
        self._finished: deque[EpisodeStatistics] = deque(maxlen=MAX_EPISODES)
        self._n_steps = 0

    def begin_step(self) -> None:
        """Before an environment step; the events of `reset` stay for the first step."""
        if self._n_steps and self.step_events:
            self.step_events.clear()

    def end_step(self) -> None:
        """After an environment step."""
        self._n_steps += 1
        if self._keep_log:
            self.log.steps.append(list(self.step_events))
        if self.step_events:
            self._aggregator.add_step(self.step_events)

    def end_episode(self, last_maze_state: Any) -> None:
        """Close the episode, if it has a step; called before the next `reset` fires events."""
        if self._n_steps:
            if self._kpi_calculator is not None:
                self._add_kpis(self._kpi_calculator, last_maze_state)
            self._finished.append(self._aggregator.finish(self._pubsub.interfaces))
        self._clear()

    def discard_episode(self) -> None:
        """Forget the unfinished episode: it was cut off, not ended."""
        self._aggregator.discard()
        self._clear()

    def drain(self) -> list[EpisodeStatistics]:
        """The episodes finished since the last call, one entry each, be it empty."""
        finished = list(self._finished)
        self._finished.clear()
        return finished

    def _add_kpis(self, calculator: KpiCalculator, last_maze_state: Any) -> None:
        kpis = calculator.calculate_kpis(self.log, last_maze_state)
        event = BaseEnvEvents.kpi
        records = [EventRecord(BaseEnvEvents, event, {"name": name, "value": value}) for name, value in kpis.items()]
        self.log.steps[-1] += records
        self._aggregator.add_step(records)

    def _clear(self) -> None:
        self._n_steps = 0
        self.step_events.clear()
        if self.log.steps:
            self.log = EpisodeEventLog()
