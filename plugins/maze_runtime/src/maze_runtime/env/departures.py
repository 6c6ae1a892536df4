"""Actors who leave an episode while another one decides: what an environment offers to say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from maze_kernel.contracts.env import ActorID


@runtime_checkable
class ReportsDepartures(Protocol):
    """Actors of the environment may leave by what others do; looked for by `capability` along a stack of wrappers."""

    def departed_actors(self) -> Sequence[ActorID]:
        """Who left the episode for good with the last `step`, beside the actor that took it.

        For that one `is_actor_done` answers. Whoever is named decides no more and is paid no more: a critic of actors
        bootstraps from nothing behind its last decision, and its last transition is terminal.
        """
        ...
