"""Recorded episodes in the words of the simulation: MazeStates, MazeActions and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import attrs

from maze_kernel.contracts.events import EventRecord
from maze_runtime.datasets.contract import EpisodeSource


@attrs.frozen(kw_only=True)
class MazeStep:
    """One decision in the words of the simulation.

    Attributes:
        maze_state: in which it was taken.
        maze_action: the decision.
        events: fired by it; those of `reset` are among the first step's.
        components: what `get_serializable_components` gave after it.
    """

    maze_state: Any
    maze_action: Any | None
    events: tuple[EventRecord, ...]
    components: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class MazeEpisode:
    """All decisions of an episode, and the state it ended in; None where the last step failed.

    Attributes:
        unknown_classes: names of those that the environment does not tell: their objects in states and actions came
            back as namespaces, members of enums as words.
    """

    steps: tuple[MazeStep, ...]
    final_state: Any | None
    unknown_classes: tuple[str, ...] = ()


@runtime_checkable
class HoldsMazeEpisodes(EpisodeSource, Protocol):
    """A source that may also hold MazeStates, MazeActions and events."""

    def maze_episode(self, index: int, core_env: Any | None = None) -> MazeEpisode | None:
        """Those of one episode; None where its environment was no Maze environment.

        Args:
            index: as in `read`.
            core_env: of an environment like the recorded one, whose classes the objects come back in; None: they
                come back as namespaces.
        """
        ...
