"""The batches of environments that a run trains on: what they say of themselves, and what their episodes came to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maze_kernel.contracts.capabilities import ReportsBatchStatistics, capability
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.events.kpi import BaseEnvEvents
from maze_runtime.events.raw_reward import raw_reward_of
from maze_runtime.rollout.batch_notes import HasNotes
from maze_runtime.run.env_factory import build_transform, is_transform

if TYPE_CHECKING:
    from maze_kernel.contracts.transform import Transform
    from maze_kernel.contracts.vector import VectorEnv
    from maze_kernel.selection import Selection


class TrainingBatches:
    """The batches of this process; workers send the statistics of theirs to `events`.

    Args:
        transforms: around the batches.
        env_wrappers: around each single environment.

    Attributes:
        events: what `drain_event_statistics` reduces.
    """

    def __init__(self, transforms: Sequence[Transform], env_wrappers: Sequence[Selection]) -> None:
        self.events = EpochAggregator()
        self._transforms = transforms
        self._env_wrappers = env_wrappers
        self._batches: list[VectorEnv] = []

    def add(self, batch: VectorEnv) -> None:
        """Take note of a batch that was built."""
        self._batches.append(batch)

    def notes(self) -> list[str]:
        """What batches say of themselves; see `HasNotes`."""
        found = [capability(batch, HasNotes) for batch in self._batches]  # type: ignore[type-abstract]
        return [note for batch in found if batch is not None for note in batch.notes]

    def mean_raw_reward(self, learnt_from: float | None) -> float | None:
        """What the environments paid in the epoch's episodes so far; None where that is not known in this process.

        Args:
            learnt_from: the same as the trainer sees it.
        """
        if not self.shapes_reward:
            return learnt_from
        batches = [_innermost(batch) if self._inner_shapes_reward else batch for batch in self._batches]
        paid, n_episodes = raw_reward_of(*batches)
        if n_episodes:
            return paid / n_episodes
        return self.events.mean_so_far(BaseEnvEvents.__name__, BaseEnvEvents.raw_reward.__name__)

    @property
    def shapes_reward(self) -> bool:
        """Whether wrappers shape what is learnt from."""
        return self._inner_shapes_reward or any(transform.changes("reward") for transform in self._transforms)

    @cached_property
    def _inner_shapes_reward(self) -> bool:
        """Whether a transform around single environments changes rewards."""
        inner = [build_transform(selection) for selection in self._env_wrappers if is_transform(selection)]
        return any(transform.changes("reward") for transform in inner)

    def drain_event_statistics(self) -> dict[str, Any]:
        """Statistics of the events of all environments since the last call, by tag; called once an epoch."""
        for batch in self._batches:
            source = capability(batch, ReportsBatchStatistics)  # type: ignore[type-abstract]
            for episodes in () if source is None else source.drain_batch_statistics():
                self.events.add_episodes(episodes)
        return self.events.reduce()


def _innermost(batch: VectorEnv) -> VectorEnv:
    """The batch inside of its transforms."""
    from maze_runtime.rollout.vector_transform import TransformedVectorEnv

    while isinstance(batch, TransformedVectorEnv):
        batch = batch.vector_env
    return batch
