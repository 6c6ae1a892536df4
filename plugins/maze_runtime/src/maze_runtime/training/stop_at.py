"""The callback `stop-at`: ends a run at a value of one of its statistics, such as the reward or a KPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maze_runtime.training.callback_options import StopAtOptions
from maze_runtime.training.callbacks import Callback, CallbackContext
from maze_runtime.training.metric import Metric
from maze_runtime.training.run_in_progress import RunInProgress


class StopAt(Callback):
    """Stops a run whose statistic is as good as wanted, several times in a row if asked for."""

    def __init__(self, context: CallbackContext, options: StopAtOptions) -> None:
        own = Metric(context.metric, context.minimize)
        self._metric = own if options.metric is None else Metric.parse(options.metric)
        self._options = options
        self._times = 0

    def on_epoch(self, run: RunInProgress) -> None:
        """Count epochs that reach the value; one without the statistic counts neither way."""
        value = run.value(self._metric.tag)
        if value is None:
            return
        wanted = self._options.value
        reached = value <= wanted if self._metric.minimize else value >= wanted
        self._times = self._times + 1 if reached else 0
        if self._times >= self._options.times:
            run.stop(f"{self._metric.tag} is {value:.6g}, {wanted:g} was wanted")

    def state_dict(self) -> dict[str, Any]:
        """How often in a row."""
        return {"times": self._times}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._times = int(state["times"])
