"""Whether actors that an environment names exist: a wrong one would be taken for another environment's."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from maze_kernel.contracts.env import ActorID, PolicyKey, StructuredSpaces
from maze_kernel.errors import EnvError

TYPE = "maze_kernel.contracts.env.ActorID"
AGENT_NUMBERS = 1 << 32
"""Agents have smaller numbers than this: one number an actor is made of its environment, or policy key, and its own."""


def require_actor(spaces: StructuredSpaces, key: PolicyKey, agent_id: Any, told_by: str = "actor_id()") -> int:
    """The number of an agent, if the environment has such an actor.

    Args:
        spaces: of the environment.
        key: policy key.
        agent_id: what stands for the agent.
        told_by: the method that names it.

    Raises:
        EnvError: the policy key is unknown, or it has no such agent.
    """
    if key not in spaces.observation:
        known = ", ".join(map(repr, spaces.policy_keys))
        raise EnvError(f"{told_by} names an unknown policy key", received=repr(key), expected=known)
    n_agents = spaces.agent_counts[key]
    n_numbers = n_agents if n_agents > 0 else AGENT_NUMBERS
    try:
        number = operator.index(agent_id)
    except TypeError:
        number = -1
    if not 0 <= number < n_numbers:
        raise EnvError(
            f"{told_by} names an agent of policy key {key!r} that does not exist",
            received=f"agent {agent_id!r}",
            expected=f"a number from 0 to {n_numbers - 1}",
            help="count the agents of a key from 0 on, or say how many there are in agent_counts "
            "(-1: their number changes)",
        )
    return number


def require_departed(spaces: StructuredSpaces, departed: Any) -> tuple[ActorID, ...]:
    """What `departed_actors` gave as actors that exist, each once.

    Raises:
        EnvError: it is no sequence of actors, or the environment has no such actor.
    """
    told_by = "departed_actors()"
    if isinstance(departed, (ActorID, str)) or not isinstance(departed, Iterable):
        raise EnvError(
            f"{told_by} gives no sequence of actors",
            received=repr(departed),
            expected=f"a list or tuple of {TYPE}, empty where nobody left",
            help="return [ActorID(policy key, agent)]",
        )
    actors: dict[ActorID, None] = {}
    for actor in departed:
        if not isinstance(actor, tuple) or len(actor) != len(ActorID._fields):
            raise EnvError(
                f"{told_by} names something that is no ActorID",
                received=repr(actor),
                expected=TYPE,
                help="return [ActorID(policy key, agent)]",
            )
        key, agent_id = actor
        actors[ActorID(key, require_actor(spaces, key, agent_id, told_by))] = None
    return tuple(actors)
