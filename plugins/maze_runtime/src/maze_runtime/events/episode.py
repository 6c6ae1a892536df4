"""The events of one environment, step by step and episode by episode: what a Maze environment keeps of them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.events import EpisodeStatistics, EventRecord
from maze_kernel.errors import EnvError, MazeError, MazeWarning
from maze_runtime.events.aggregation import EpisodeAggregator
from maze_runtime.events.kpi import BaseEnvEvents, KpiCalculator
from maze_runtime.events.logs import EpisodeEventLog
from maze_runtime.events.pubsub import Pubsub

MAX_EPISODES = 100_000
"""Finished episodes that are kept until somebody drains them, as training does once an epoch; no more than the last."""

MAX_UNDRAINED = 1000
"""So many until somebody has drained them once: who never does so needs none."""

MAX_LOGS = 1000
"""Likewise of whole logs."""

MOST_RECORDS = 5000
"""Records that are kept before they are aggregated, where nobody needs the log of the whole episode."""

FULL = (
    f"{MAX_EPISODES:,} episodes of an environment ended since its event statistics were drained last, and these leave "
    "out the first from now on: in training make epochs shorter"
)


class EpisodeRecorder:
    """Listens to all topics of an environment.

    A step costs it no more than an entry in a list: records are aggregated when the episode ends, or when there are
    many of them.

    Attributes:
        log: of the episode so far; kept whole only where there is a KPI calculator, or after `keep_logs`.
    """

    def __init__(self, pubsub: Pubsub, kpi_calculator: KpiCalculator | None = None) -> None:
        self.log = EpisodeEventLog(pubsub.record())
        self._keeps_log = kpi_calculator is not None
        self._logs: deque[EpisodeEventLog] | None = None
        self._pubsub = pubsub
        self._kpi_calculator = kpi_calculator
        self._aggregator = EpisodeAggregator()
        self._finished: deque[EpisodeStatistics] = deque(maxlen=MAX_UNDRAINED)
        self._first = 0
        self._has_steps = False

    @property
    def step_events(self) -> list[EventRecord]:
        """Those of the environment step in progress, or of the last one."""
        return self.log.records[self._first :]

    def begin_step(self) -> None:
        """Before an environment step; the events of `reset` stay for the first step."""
        if self._has_steps:
            self._first = len(self.log.records)
            if self._first > MOST_RECORDS and not self._keeps_log:
                self._aggregate()
                self._forget()

    def end_step(self) -> None:
        """After an environment step."""
        self._has_steps = True
        self.log.ends.append(len(self.log.records))

    def end_episode(self, last_maze_state: Any) -> None:
        """Close the episode, if it has a step; called before the next `reset` fires events."""
        if self._has_steps:
            del self.log.records[self.log.ends[-1] if self.log.ends else 0 :]
            if self._kpi_calculator is not None:
                self._add_kpis(self._kpi_calculator, last_maze_state)
            self._aggregate()
            if len(self._finished) == MAX_EPISODES - 1:
                warnings.warn(FULL, MazeWarning, stacklevel=2)
            self._finished.append(self._aggregator.finish(self._pubsub.interfaces))
            if self._logs is not None:
                self._logs.append(EpisodeEventLog(list(self.log.records), list(self.log.ends)))
        self._clear()

    def discard_episode(self) -> None:
        """Forget the unfinished episode: it was cut off, not ended."""
        self._aggregator.discard()
        self._clear()

    def keep_logs(self) -> None:
        """Keep the logs of finished episodes from now on, until `drain_logs`."""
        self._keeps_log = True
        self._logs = deque(maxlen=MAX_LOGS)

    def drain_logs(self) -> list[EpisodeEventLog]:
        """The logs of the episodes finished since the last call, KPIs included."""
        logs = list(self._logs or ())
        if self._logs is not None:
            self._logs.clear()
        return logs

    def drain(self) -> list[EpisodeStatistics]:
        """The episodes finished since the last call, one entry each, be it empty."""
        finished = list(self._finished)
        self._finished = deque(maxlen=MAX_EPISODES)
        return finished

    def _add_kpis(self, calculator: KpiCalculator, last_maze_state: Any) -> None:
        try:
            kpis = calculator.calculate_kpis(self.log, last_maze_state)
        except MazeError:
            raise
        except Exception as error:
            raise EnvError(
                f"{type(calculator).__name__}.calculate_kpis raised {type(error).__name__}: {error}",
                help="it is called when an episode has ended, with all events of it and the state it ended in",
            ) from error
        if not isinstance(kpis, Mapping):
            raise EnvError(
                f"{type(calculator).__name__}.calculate_kpis did not return a dict",
                received=repr(kpis)[:200],
                expected="a number for each KPI by its name, {} for none",
            )
        event = BaseEnvEvents.kpi
        for name, value in kpis.items():
            number = _number(value)
            if number is None:
                raise EnvError(
                    f"the KPI {name!r} of {type(calculator).__name__} is no number",
                    received=repr(value)[:200],
                    expected="a number for each KPI by its name",
                    help="leave a KPI out where an episode has none",
                )
            self.log.records.append(EventRecord(BaseEnvEvents, event, {"name": name, "value": number}))
        self.log.ends[-1] = len(self.log.records)

    def _aggregate(self) -> None:
        if self.log.records:
            self._aggregator.add_steps(self.log.records, self.log.ends)

    def _forget(self) -> None:
        # The list of records is the one that topics append to.
        self.log.records.clear()
        self.log.ends.clear()
        self._first = 0

    def _clear(self) -> None:
        self._has_steps = False
        self._forget()


def _number(value: Any) -> Any:
    """The value if it is a number, or that in an array of one element; else None."""
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        return value
    try:
        array = np.empty(0) if value is None or isinstance(value, str) else np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None
    return float(array.reshape(())) if array.size == 1 else None
