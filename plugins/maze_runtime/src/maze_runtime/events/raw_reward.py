"""What environments pay before wrappers shape it: the event that reports it, and what is known while an epoch runs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.events import EpisodeStatistics, EventStatistics
from maze_runtime.events.kpi import BaseEnvEvents


@runtime_checkable
class TellsRawReward(Protocol):
    """Knows what environments paid before wrappers shaped it, while an epoch runs."""

    def raw_reward_so_far(self) -> tuple[float, int]:
        """Sum of the rewards of the episodes that ended since statistics were drained, and how many there were."""
        ...


def raw_reward_of(*sources: object) -> tuple[float, int]:
    """The first account of several stacks of wrappers, each from its outermost, that knows of an episode."""
    for source in sources:
        told = capability(source, TellsRawReward)  # type: ignore[type-abstract]
        so_far = (0.0, 0) if told is None else told.raw_reward_so_far()
        if so_far[1]:
            return so_far
    return 0.0, 0


def reports_raw_reward(episode: EpisodeStatistics) -> bool:
    """Whether a report of an episode says what the environment paid."""
    return any(own.event.__name__ == BaseEnvEvents.raw_reward.__name__ for own in episode)


def raw_reward(reward: float, _length: int) -> EpisodeStatistics:
    """The report of an episode to `BaseEnvEvents.raw_reward`."""
    return [EventStatistics(BaseEnvEvents.__name__, BaseEnvEvents.raw_reward, {(None, ()): [reward]})]
