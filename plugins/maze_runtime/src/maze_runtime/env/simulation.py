"""What an environment built from a simulation may offer: its states and events, copies of itself, recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import attrs

from maze_kernel.contracts.env import Action, Observation, PolicyKey
from maze_kernel.contracts.events import EventRecord
from maze_runtime.env.renderer import Renderer
from maze_runtime.events.logs import EpisodeEventLog


@runtime_checkable
class KeepsEventLogs(Protocol):
    """Can keep every event of its episodes, not their statistics alone."""

    def keep_event_logs(self) -> None: ...

    def drain_event_logs(self) -> list[EpisodeEventLog]:
        """Those of the episodes that ended since the last call."""
        ...


@runtime_checkable
class Recordable(Protocol):
    """Tells what a trajectory stores beside observations and actions."""

    def get_maze_state(self) -> Any: ...

    def get_maze_action(self) -> Any | None: ...

    def get_step_events(self) -> Sequence[EventRecord]: ...

    def get_serializable_components(self) -> dict[str, Any]: ...

    @property
    def episode_id(self) -> str: ...

    @property
    def env_time(self) -> int: ...


@runtime_checkable
class HasRenderer(Protocol):
    """Has what draws its states, wherever these come from."""

    def get_renderer(self) -> Renderer | None:
        """None where nothing does."""
        ...


@runtime_checkable
class Cloneable(Protocol):
    """Can take over the state of another environment of its kind: planning, look-ahead."""

    def clone_from(self, other: Any) -> None: ...


@runtime_checkable
class Imitable(Protocol):
    """Maps recorded MazeStates and MazeActions to its spaces."""

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]: ...


@runtime_checkable
class HasNoop(Protocol):
    """Knows an action of the current actor that changes nothing."""

    def noop_action(self) -> Action: ...


@attrs.frozen(kw_only=True)
class Recording:
    """Where episodes are recorded, and what is said about them; travels to worker processes.

    Attributes:
        folder: of the recording.
        experiment: plain data for its description; None: unknown.
        policy: who plays, as text.
        numbers: seed to place in the recording, where the seeds are known in advance; None: in the order of the
            episodes of each environment.
    """

    folder: Path
    experiment: Mapping[str, Any] | None = None
    policy: str = ""
    numbers: Mapping[int, int] | None = None


@runtime_checkable
class RecordsEpisodes(Protocol):
    """Records what is seen and done at its place in a stack of wrappers."""

    def record_into(self, recording: Recording) -> None:
        """Record the following episodes there; called before the first `reset`."""
        ...
