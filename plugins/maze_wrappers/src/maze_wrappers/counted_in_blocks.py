"""Samples handed to running statistics a block at a time: counting one costs as much as counting a thousand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_wrappers.running_statistics import RunningStatistics

_SHARE = 1 / 64
_LARGEST_BYTES = 1 << 20


class CountedInBlocks:
    """Statistics, and the samples that wait to be counted: never more than a 64th of those before them, nor a MiB.

    So the first batches are counted one by one, and what is in use later lacks a 64th of what was seen at most.
    When samples are counted depends on nothing but the samples: to ask for the state changes nothing.

    Args:
        statistics: counts them.
        holds: samples go into what `take` gives alone; the statistics stay as they are.
    """

    def __init__(self, statistics: RunningStatistics, *, holds: bool = False) -> None:
        self.holds = holds
        self._statistics = statistics
        self._since: RunningStatistics | None = None
        self._waiting: list[np.ndarray] = []
        self._n_waiting = self._n_bytes = 0
        self._n_counted = 0.0

    def add(self, batch: np.ndarray) -> bool:
        """Take a batch `(n, *shape)`, of which a copy is kept; whether the statistics have changed."""
        self._waiting.append(batch.copy())
        self._n_waiting += len(batch)
        self._n_bytes += batch.nbytes
        may_wait = self.holds or self._n_waiting < _SHARE * self._n_counted
        return False if may_wait and self._n_bytes < _LARGEST_BYTES else self.count()

    def begin(self) -> bool:
        """New episodes: count what waits, and the next batch at once, as whoever goes on from `state_dict` does.

        Whether the statistics have changed.
        """
        changed = self.count()
        self._n_counted = 0.0
        return changed

    def count(self) -> bool:
        """Count what waits; whether the statistics have changed."""
        if not self._n_waiting:
            return False
        block = self._block()
        if not self.holds:
            before = self._statistics.count
            self._statistics.merge(block)
            # Samples are counted in rows here, by what a row counts for there.
            added = self._statistics.count - before
            self._n_counted = self._n_waiting * self._statistics.count / added if added > 0 else 0.0
        if self._since is None:
            self._since = block
        else:
            self._since.merge(block)
        self._forget()
        return not self.holds

    def take(self) -> RunningStatistics | None:
        """Statistics of all samples since the last call or `load_state_dict`; None without any."""
        self.count()
        since, self._since = self._since, None
        return since

    def state_dict(self) -> dict[str, Any]:
        """That of the statistics once everything is counted."""
        if self.holds or not self._n_waiting:
            return self._statistics.state_dict()
        counted = copy.deepcopy(self._statistics)
        counted.merge(self._block())
        return counted.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`; all samples since are forgotten."""
        self._statistics.load_state_dict(state)
        self._since, self._n_counted = None, 0.0
        self._forget()

    def _block(self) -> RunningStatistics:
        """Statistics of what waits."""
        kind: Any = type(self._statistics)
        block: RunningStatistics = kind(self._statistics.axis)
        block.update(self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting))
        return block

    def _forget(self) -> None:
        self._waiting, self._n_waiting, self._n_bytes = [], 0, 0
