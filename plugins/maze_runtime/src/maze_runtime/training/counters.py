"""How far training has come: the counters of a trainer, and what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from maze_kernel.contracts.logger import Progress
from maze_runtime.training.schedules import Schedule, budget_fraction, scheduled_value


class Counters:
    """Epochs and environment steps of a trainer; saved with its checkpoints.

    Schedules have one value throughout each of `updates`: that of the share of the budget that was used when it began.
    So the first update has their `start`, and the last one not quite their `end`, whichever budget there is.

    Args:
        options: of the trainer. Its budget is `n_epochs` and, where it has that option, `max_env_steps`.
        report: takes signs of life, see `TrainerContext.progress`.

    Attributes:
        epoch: epochs done.
        env_steps: environment steps done.
    """

    def __init__(self, options: Any, report: Callable[[Progress], bool | None]) -> None:
        self.epoch = 0
        self.env_steps = 0
        self._n_epochs: int = options.n_epochs
        self._max_env_steps: int = getattr(options, "max_env_steps", 0)
        self._report = report
        self._is_late = False
        self._steps_at_beginning: int | None = None
        self._rate: float | None = None

    def scheduled(self, value: float | Schedule, part_of_epoch: float = 0.0) -> float:
        """A number or a schedule over the budget, now, or as the update began that is in progress.

        Args:
            value: an option.
            part_of_epoch: how much of the running epoch is done, 0 to 1.
        """
        return scheduled_value(value, self.used(part_of_epoch))

    def rate_of_update(self, learning_rate: float | Schedule, part_of_epoch: float = 0.0) -> float:
        """`scheduled`, of the learning rate; it is kept for `reported_rate`."""
        self._rate = self.scheduled(learning_rate, part_of_epoch)
        return self._rate

    def reported_rate(self, learning_rate: float | Schedule) -> float:
        """The learning rate of the latest update, for statistics; before the first one that of now."""
        return self.scheduled(learning_rate) if self._rate is None else self._rate

    def used(self, part_of_epoch: float = 0.0) -> float:
        """How much of the budget is used, or was as the update began that is in progress, 0 to 1; 0 without one."""
        return budget_fraction(
            epoch=self.epoch + part_of_epoch,
            n_epochs=self._n_epochs,
            env_steps=self.env_steps if self._steps_at_beginning is None else self._steps_at_beginning,
            max_env_steps=self._max_env_steps,
        )

    def report(self, part_of_epoch: float, phase: str, reward: float | None = None) -> None:
        """Tell the live view what comes next.

        Args:
            part_of_epoch: how much of the running epoch is done, 0 to 1.
            phase: see `Progress`.
            reward: mean of the episodes that ended in the epoch so far, if it is known.
        """
        progress = Progress(env_steps=self.env_steps, fraction=part_of_epoch, phase=phase, reward=reward)
        self._is_late = bool(self._report(progress)) or self._is_late

    def updates(self, n_updates: int) -> Iterator[int]:
        """0 … n − 1, one an update of the epoch that begins; fewer where steps or time of the run are used up.

        An update begins before it collects what it learns from.
        """
        self._is_late = False
        for index in range(n_updates):
            if index and (self._is_late or 0 < self._max_env_steps <= self.env_steps):
                break
            self._steps_at_beginning = self.env_steps
            yield index
        self._steps_at_beginning = None

    def state_dict(self) -> dict[str, int]:
        """Both counters."""
        return {"epoch": self.epoch, "env_steps": self.env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; other entries are left alone."""
        self.epoch = int(state["epoch"])
        self.env_steps = int(state["env_steps"])
        self._steps_at_beginning = None
