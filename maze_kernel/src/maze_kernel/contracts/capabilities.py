"""What an environment may offer beyond the contract: small protocols, looked for along a stack of wrappers."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from maze_kernel.contracts.events import EpisodeStatistics


@runtime_checkable
class ReportsStatistics(Protocol):
    """Keeps the event statistics of its episodes."""

    def drain_statistics(self) -> list[EpisodeStatistics]:
        """The episodes that ended since the last call; an episode ends with the next `reset`."""
        ...

    def discard_episode(self) -> None:
        """Forget the unfinished episode: the next `reset` cuts it off."""
        ...


@runtime_checkable
class ReportsBatchStatistics(Protocol):
    """A batch that passes on the event statistics of its environments."""

    def drain_batch_statistics(self) -> list[list[EpisodeStatistics]]:
        """For each environment the episodes that ended since the last call; `reset` forgets unfinished ones."""
        ...


@runtime_checkable
class SeedsEveryEpisode(Protocol):
    """A batch that says whether `VectorEnv.reset` reads all seeds, those of later episodes too."""

    seeds_every_episode: bool


@runtime_checkable
class WritesFiles(Protocol):
    """Writes files of its own; told where when an experiment has built it, before its first `reset`."""

    def write_below(self, folder: Path | None) -> None:
        """Write below the run directory (the current one where there is no run), or nothing at all (None)."""
        ...


CapabilityT = TypeVar("CapabilityT")


def capability(env: object, protocol: type[CapabilityT]) -> CapabilityT | None:
    """The outermost environment of a stack of wrappers that offers something; None where none does.

    Wrappers say what they wrap in the attribute `env`, those of batches in `vector_env`.
    """
    current: object | None = env
    while current is not None:
        if isinstance(current, protocol):
            return current
        current = getattr(current, "env", None) or getattr(current, "vector_env", None)
    return None
