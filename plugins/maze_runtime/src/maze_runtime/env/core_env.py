"""`CoreEnv`: a simulation in its own words, with plain Python objects for states and actions."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from maze_kernel.contracts.env import FLAT_KEY, ActorID, PolicyKey
from maze_runtime.events.kpi import KpiCalculator
from maze_runtime.events.pubsub import Pubsub, SetByInit

if TYPE_CHECKING:
    from maze_runtime.env.renderer import Renderer

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")


class EnvironmentContext:
    """Where an environment is in time.

    Attributes:
        env_time: flat steps finished in this episode; sub-steps of one flat step share it.
        seed: of the last seeded `reset`; None before.
    """

    def __init__(self) -> None:
        self.env_time = 0
        self.seed: int | None = None
        self._episode_id: str | None = None

    @property
    def episode_id(self) -> str:
        """Names the episode; made when it is first asked for."""
        if self._episode_id is None:
            self._episode_id = str(uuid.uuid4())
        return self._episode_id

    def begin_episode(self, seed: int | None) -> None:
        """Called by `MazeEnv` before `CoreEnv.reset`."""
        self.env_time = 0
        self.seed = seed if seed is not None else self.seed
        self._episode_id = None

    def advance(self) -> None:
        """Called by `MazeEnv` when a flat step has finished."""
        self.env_time += 1


class CoreEnv(ABC, Generic[StateT, ActionT]):
    """The simulation: knows its rules, and nothing of spaces, arrays or networks.

    Write `reset`, `step` and `get_maze_state`; states and actions are objects of your own, best attrs classes. A
    structured simulation (several decisions a step, several agents) also answers the questions below them.
    A state that was returned must not change afterwards.

    Attributes:
        pubsub: creates the topics its events are fired on.
        context: episode and time, kept by the `MazeEnv` around it.
    """

    pubsub: Pubsub = cast(Any, SetByInit())
    context: EnvironmentContext = cast(Any, SetByInit())

    def __init__(self) -> None:
        self.pubsub = Pubsub()
        self.context = EnvironmentContext()

    @abstractmethod
    def reset(self, seed: int | None = None) -> StateT:
        """Start an episode; with a seed, everything random begins anew from it."""

    @abstractmethod
    def step(self, maze_action: ActionT) -> tuple[StateT, float, bool, bool, dict[str, Any]]:
        """Take one decision of the current actor.

        Returns:
            the state, the reward (0.0 where a reward aggregator decides), terminated, truncated and info.
        """

    @abstractmethod
    def get_maze_state(self) -> StateT:
        """The state as it is now."""

    def actor_id(self) -> ActorID:
        """Who decides next."""
        return ActorID(FLAT_KEY, 0)

    @property
    def agent_counts(self) -> Mapping[PolicyKey, int]:
        """Number of agents a policy key; −1 where it changes during an episode."""
        return {FLAT_KEY: 1}

    def is_actor_done(self) -> bool:
        """Whether the actor that just acted has left the episode for good."""
        return False

    def departed_actors(self) -> Sequence[ActorID]:
        """Who else left the episode for good with the last `step`; see `ReportsDepartures`."""
        return ()

    def is_flat_step_end(self) -> bool:
        """Whether the last `step` let time advance; False between the sub-steps of one step."""
        return True

    def get_actor_rewards(self, reward: float) -> np.ndarray | None:
        """How the reward of the flat step that just ended is divided among its sub-steps; None: as it was given."""
        return None

    def preview_sub_step(self, maze_state: StateT, maze_action: ActionT) -> tuple[StateT, ActorID] | None:
        """What a decision that lets no time pass makes of a state, told without stepping; optional.

        With it a deployed agent takes all sub-steps of a flat step in one `act`, and answers with the tuple of their
        MazeActions.

        Returns:
            the state of the next sub-step and who decides in it; None where the decision ends the flat step.
        """
        return None

    def get_renderer(self) -> Renderer | None:
        """What draws its states."""
        return None

    def get_kpi_calculator(self) -> KpiCalculator | None:
        """What computes the KPIs of an episode."""
        return None

    def get_serializable_components(self) -> dict[str, Any]:
        """Parts of the simulation that a recording should hold beside the state, by name."""
        return {}

    def clone_from(self, other: Any) -> None:
        """Take over the whole state of another environment of this class, random state included.

        Raises:
            NotImplementedError: this simulation cannot be cloned.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it is cloned; write clone_from")

    def close(self) -> None:
        """Release what the simulation holds."""
        return
