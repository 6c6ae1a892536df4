"""Options of the environment components "pettingzoo" and "pettingzoo-vector"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs


@attrs.frozen(kw_only=True)
class PettingZooOptions:
    """Which game, who decides in it, and how agents are paid."""

    id: Annotated[str, "or an object"]
    """Module of the game, e.g. "pettingzoo.classic.connect_four_v3" or "mpe2.simple_spread_v3"; or "my_package.module:attribute" of a class or function that makes an AECEnv or ParallelEnv; or the id of a Gymnasium environment whose Tuple spaces have an entry an agent, e.g. "rware:rware-tiny-2ag-v2". From Python also such a class, function or instance, which is copied for each environment."""  # noqa: E501
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    """Keyword arguments of the game."""
    policies: Mapping[str, str] = attrs.field(factory=dict)
    """Agent to policy key. Unset: agents that are numbered, such as player_0 and player_1, share the policy "player" if their spaces agree; any other agent has a policy of its own name."""  # noqa: E501
    rewards: Literal["own", "team"] = "own"
    """"own": each agent is paid what the game gives it, undiscounted, and a whole episode is one step of environment time; for opponents, best with critic "step-state". "team": all are paid what the agents get together, and each round is one step; for partners. A game of one agent is always paid so."""  # noqa: E501
    random_agents: tuple[str, ...] = ()
    """Agents that play at random (within their action mask) and are not paid: opponents to measure a policy with."""
    render_mode: str | None = None
    """How the game draws itself: "rgb_array" for videos, "human" for a window; unset does not draw."""


@attrs.frozen(kw_only=True)
class PettingZooVectorOptions:
    """Which simulation of many games at once, who decides in them, and how agents are paid."""

    entry: Annotated[str, "or an object"]
    """"my_package.module:attribute" of a class or function that makes a batch of parallel games (`BatchOfGames`): it is called with `num_envs` and `kwargs`. From Python also such a class or function."""  # noqa: E501
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    """Further keyword arguments."""
    policies: Mapping[str, str] = attrs.field(factory=dict)
    """Agent to policy key; unset: as in "pettingzoo", numbered agents with the same spaces share a policy."""
    rewards: Literal["own", "team"] = "own"
    """"own": each agent is paid what the game gives it, undiscounted, and a whole episode is one step of environment time. "team": all are paid what the agents get together, and each round is one step. A game of one agent is always paid so."""  # noqa: E501
