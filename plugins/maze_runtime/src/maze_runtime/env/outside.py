"""A simulation that runs somewhere else: what stands in for it while its owner calls the agent.

An `Outside` is asked for the result of each action; what answers is the business of the deployment room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from maze_kernel.contracts.env import Action, ActorID, Observation, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.events import EventRecord
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.renderer import Renderer
from maze_runtime.events.kpi import KpiCalculator


@attrs.frozen(kw_only=True)
class Reply:
    """What the simulation answers.

    Attributes:
        maze_state: the state in the simulation's own words; an observation where it has no others.
        reward, terminated, truncated: of the action before; nothing and false for the first state of an episode.
        info: as Gymnasium has it.
        actor_id: who decides next; None: the first policy key's first agent.
        flat_step_end: whether time advanced.
        events: what happened in the simulation.
    """

    maze_state: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = attrs.field(factory=dict)
    actor_id: ActorID | None = None
    flat_step_end: bool = True
    events: Sequence[EventRecord] = ()

    @property
    def ends_episode(self) -> bool:
        return self.terminated or self.truncated


class Outside(Protocol):
    """The simulation's side."""

    def reset(self) -> Reply:
        """The first state of an episode."""
        ...

    def step(self, maze_action: Any) -> Reply:
        """What became of an action."""
        ...

    def is_over(self) -> bool:
        """Whether nobody asks for actions any more."""
        ...


@runtime_checkable
class Detachable(Protocol):
    """An environment that can do without its simulation: conversions, events and statistics stay."""

    def detach(self, outside: Outside) -> None:
        """From now on states come from `outside`, and actions go there."""
        ...

    def preview(self, reply: Reply) -> Observation:
        """The observation that a reply gives; changes nothing."""
        ...


@runtime_checkable
class SpeaksOutside(Protocol):
    """A detachable environment whose observations and actions have another form than Maze's arrays by name."""

    def is_outside_observation(self, observation: Any, actor: ActorID | None = None) -> bool:
        """Whether this is what the simulation itself shows an actor; both forms may be dicts."""
        ...

    def outside_action(self, action: Action, actor: ActorID | None = None) -> Any:
        """An actor's action as the simulation's own `step` takes it; None: that of whoever decided last."""
        ...


@runtime_checkable
class NamesAgents(Protocol):
    """A detachable environment of agents with names, which is told of one of them or of several at once.

    Its actions go outside as a dict by agent.
    """

    def by_agent(self, reply: Reply, actor: ActorID | str | None) -> Mapping[str, Reply]:
        """Take apart what was told: one reply an agent, with its `actor_id`; changes nothing.

        Args:
            reply: of one agent; or with dicts by agent as its observation, reward, flags and info.
            actor: who sees the observation; None: it is a dict by agent.
        """
        ...

    def together(self, replies: Mapping[str, Reply], *, is_first: bool) -> Reply | None:
        """One reply of what several agents were told; None where it says nothing new of anybody; changes nothing."""
        ...


def first_actor(spaces: StructuredSpaces) -> ActorID:
    """Who decides where nobody says it."""
    return ActorID(spaces.policy_keys[0], 0)


class OutsideEnv:
    """Stands in for any `StructuredEnv`: its states are observations, its actions are actions."""

    def __init__(self, spaces: StructuredSpaces, outside: Outside) -> None:
        self.structured_spaces = spaces
        self._outside = outside
        self._reply = Reply(maze_state=None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._reply = self._outside.reset()
        return self._reply.maze_state, self._reply.info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._reply = reply = self._outside.step(action)
        return reply.maze_state, reply.reward, reply.terminated, reply.truncated, reply.info

    def preview(self, reply: Reply) -> Observation:
        observation: Observation = reply.maze_state
        return observation

    def detach(self, outside: Outside) -> None:
        self._outside = outside

    def actor_id(self) -> ActorID:
        return self._reply.actor_id or first_actor(self.structured_spaces)

    def is_actor_done(self) -> bool:
        return False

    def is_flat_step_end(self) -> bool:
        return self._reply.flat_step_end or self._reply.ends_episode

    def get_actor_rewards(self) -> None:
        return None

    def render(self) -> None:
        return None

    def close(self) -> None:
        return None


class OutsideCoreEnv(CoreEnv[Any, Any]):
    """Stands in for a core environment, whose events, KPIs, renderer and sub-steps it keeps.

    Sub-steps that the core environment can preview are taken here; the outside gets the tuple of a flat step's actions.

    Args:
        inner: the core environment; its `step` and `reset` are never called.
        outside: gives states, gets actions.
    """

    def __init__(self, inner: CoreEnv[Any, Any], outside: Outside) -> None:
        super().__init__()
        self.pubsub, self.context = inner.pubsub, inner.context
        self._inner = inner
        self._outside = outside
        self._previews = type(inner).preview_sub_step is not CoreEnv.preview_sub_step
        self._first = ActorID(next(iter(inner.agent_counts)), 0)
        self._actions: list[Any] = []
        self._reply = Reply(maze_state=None)

    def reset(self, seed: int | None = None) -> Any:
        """The outside's first state."""
        self._actions = []
        self._reply = self._outside.reset()
        self._fire(self._reply.events)
        return self._reply.maze_state

    def step(self, maze_action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A sub-step taken here, or the outside's answer."""
        self._actions.append(maze_action)
        preview = self._inner.preview_sub_step(self._reply.maze_state, maze_action)
        if preview is not None:
            maze_state, actor_id = preview
            self._reply = Reply(maze_state=maze_state, actor_id=actor_id, flat_step_end=False)
            return maze_state, 0.0, False, False, {}
        actions, self._actions = self._actions, []
        self._reply = reply = self._outside.step(tuple(actions) if self._previews else maze_action)
        self._fire(reply.events)
        return reply.maze_state, reply.reward, reply.terminated, reply.truncated, reply.info

    def get_maze_state(self) -> Any:
        """The last one the outside gave, or a sub-step made of it."""
        return self._reply.maze_state

    def actor_id(self) -> ActorID:
        """As the reply says."""
        return self._reply.actor_id or self._first

    @property
    def agent_counts(self) -> Any:
        """The core environment's."""
        return self._inner.agent_counts

    def is_flat_step_end(self) -> bool:
        """As the reply says."""
        return self._reply.flat_step_end

    def get_renderer(self) -> Renderer | None:
        """The core environment's."""
        return self._inner.get_renderer()

    def get_kpi_calculator(self) -> KpiCalculator | None:
        """The core environment's."""
        return self._inner.get_kpi_calculator()

    def get_serializable_components(self) -> dict[str, Any]:
        """The core environment's."""
        return self._inner.get_serializable_components()

    def close(self) -> None:
        """Close the core environment."""
        self._inner.close()

    def _fire(self, events: Sequence[EventRecord]) -> None:
        for record in events:
            topic: Any = self.pubsub.create_event_topic(record.interface)
            getattr(topic, record.event.__name__)(**record.attributes)


def detach(env: StructuredEnv, outside: Outside) -> tuple[StructuredEnv, Detachable]:
    """Cut an environment off its simulation, in place, below all of its wrappers.

    Returns:
        the whole environment, and its innermost part.
    """
    innermost, around = env, None
    while isinstance(getattr(getattr(innermost, "env", None), "structured_spaces", None), StructuredSpaces):
        innermost, around = innermost.env, innermost  # type: ignore[attr-defined]
    if isinstance(innermost, Detachable):
        innermost.detach(outside)
        return env, innermost
    stand_in = OutsideEnv(innermost.structured_spaces, outside)
    if around is None:
        return stand_in, stand_in
    around.env = stand_in
    return env, stand_in
