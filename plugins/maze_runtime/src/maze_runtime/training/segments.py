"""Says when checkpoints are so close to each other that no episode of training ends between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maze_runtime.training.metric import EPISODE_COUNT


class SegmentWatch:
    """Counts episodes from one checkpoint to the next, for training environments begin new ones at each.

    Args:
        warn: takes a line for the user.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._warned = False
        self._first_step = 0
        self._n_episodes: int | None = None

    def begin(self, env_steps: int) -> None:
        """A segment begins after so many environment steps of the run."""
        self._first_step, self._n_episodes = env_steps, None

    def see(self, statistics: Mapping[str, Any]) -> None:
        """Take the training statistics of an epoch; those of trainers that count no episodes say nothing."""
        if EPISODE_COUNT in statistics:
            self._n_episodes = (self._n_episodes or 0) + int(statistics[EPISODE_COUNT])

    def end(self, env_steps: int) -> None:
        """A checkpoint ends the segment; the first without the end of an episode is spoken of."""
        if self._warned or self._n_episodes != 0:
            return
        self._warned = True
        self._warn(
            f"no episode of training ended in the {env_steps - self._first_step:,} steps before this checkpoint, and"
            " all environments begin new ones there: what comes later in an episode is never learnt from; make"
            " checkpoint.every_epochs or trainer.epoch_length larger"
        )
