"""The one environment contract: `StructuredEnv`; flat environments are its case of one policy key and one agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import attrs
from gymnasium import spaces

PolicyKey = str
"""Which policy decides: "0" for a flat environment, any word for a structured one."""

FLAT_KEY: PolicyKey = "0"

Observation = dict[str, Any]
"""Name to array, one entry a key of the observation space."""

Action = dict[str, Any]
"""Name to array or integer, one entry a key of the action space."""


class ActorID(NamedTuple):
    """Who acts next: the policy key of the sub-step, and the agent among those that share the key."""

    step_key: PolicyKey
    agent_id: int


@attrs.frozen(kw_only=True)
class StructuredSpaces:
    """The spaces of an environment, by policy key.

    `agent_counts` gives the number of agents a policy key, −1 where it changes during an episode; by default 1 each.
    `pays_differences`: an episode is one flat step, at whose end `get_actor_rewards` gives decision d the difference
    G_d − G_{d+1}, with G_d what its actor is paid from d on, undiscounted: the sum from a decision on is a return.
    """

    observation: Mapping[PolicyKey, spaces.Dict]
    action: Mapping[PolicyKey, spaces.Dict]
    agent_counts: Mapping[PolicyKey, int] = attrs.Factory(lambda self: dict.fromkeys(self.action, 1), takes_self=True)
    pays_differences: bool = attrs.field(default=False, eq=False)

    @property
    def policy_keys(self) -> tuple[PolicyKey, ...]:
        return tuple(self.action)

    @property
    def is_flat(self) -> bool:
        """One policy key and one agent: every step is one decision."""
        return len(self.action) == 1 and list(self.agent_counts.values()) == [1]


@runtime_checkable
class StructuredEnv(Protocol):
    """A simulation that asks one actor at a time for a decision.

    `step` takes the action of the actor that `actor_id()` named before the call and returns Gymnasium's
    five values; the observation is that of the next actor. Arrays that are returned may be reused by the
    environment: whoever keeps them copies them.
    """

    @property
    def structured_spaces(self) -> StructuredSpaces: ...

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]: ...

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]: ...

    def actor_id(self) -> ActorID:
        """The actor whose observation was returned last and who decides next."""
        ...

    def is_actor_done(self) -> bool:
        """Whether the actor that just acted has left the episode for good."""
        ...

    def is_flat_step_end(self) -> bool:
        """Whether the last `step` let environment time advance (a flat step finished)."""
        ...

    def get_actor_rewards(self) -> Any | None:
        """One reward a sub-step of the flat step that just finished, or None to keep what `step` returned."""
        ...

    def render(self) -> Any: ...

    def close(self) -> None: ...
