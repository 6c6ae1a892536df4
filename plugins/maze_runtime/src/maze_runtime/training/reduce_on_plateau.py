"""The callback `reduce-on-plateau`: lowers a schedule, the learning rate as a rule, when evaluations get no better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maze_runtime.training.callback_options import ReduceOnPlateauOptions
from maze_runtime.training.callbacks import Callback, CallbackContext
from maze_runtime.training.run_in_progress import RunInProgress
from maze_runtime.training.schedules import Schedule


class ReduceOnPlateau(Callback):
    """Multiplies a schedule by a factor after each `patience` evaluations without a better one."""

    def __init__(self, _context: CallbackContext, options: ReduceOnPlateauOptions) -> None:
        self._options = options
        self._counted = 0

    def on_epoch(self, run: RunInProgress) -> None:
        """Lower the schedule if it is time."""
        self._counted = min(self._counted, run.stale_evaluations)
        if run.stale_evaluations - self._counted < self._options.patience:
            return
        self._counted = run.stale_evaluations
        name, before = self._options.option, run.option(self._options.option)
        after = self._lowered(before)
        if after != before:
            run.set_option(name, after)
            run.message(f"{name} is lowered to {_shown(after)}")

    def _lowered(self, value: float | Schedule) -> float | Schedule:
        if isinstance(value, Schedule):
            start, end = self._at_least(value.start), self._at_least(value.end)
            return Schedule(start=start, end=end, shape=value.shape)
        return self._at_least(value)

    def _at_least(self, value: float) -> float:
        return min(value, max(value * self._options.factor, self._options.minimum))

    def state_dict(self) -> dict[str, Any]:
        """Evaluations that were counted already."""
        return {"counted": self._counted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._counted = int(state["counted"])


def _shown(value: float | Schedule) -> str:
    return f"{value.start:.3g} … {value.end:.3g}" if isinstance(value, Schedule) else f"{value:.3g}"
