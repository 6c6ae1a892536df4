"""What a call of `AgentDeployment.act` tells: of one state, or of several agents by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from maze_deployment.checking import OWNER, checked_reply
from maze_kernel.contracts.env import ActorID
from maze_kernel.errors import EnvError
from maze_runtime.env.outside import Detachable, NamesAgents, Reply


@attrs.frozen
class Told:
    """What came of the last action, checked.

    Attributes:
        reply: None: nobody is left to decide, and nothing is new.
        answer: makes what the caller gets of the action that goes outside; of None where the episode ended.
    """

    reply: Reply | None
    answer: Callable[[Any], Any]


def told(reply: Reply, actor: ActorID | str | None, innermost: Detachable, *, is_first: bool) -> Told:
    """Check what a caller says.

    Args:
        reply: as the caller has it, without an actor.
        actor: who decides: an ActorID, or the name of an agent.
        innermost: knows what observation a state gives, and agents by name.
        is_first: whether it begins an episode.

    Raises:
        EnvError: an argument of `act` is malformed.
        NonFiniteError: a reward or an observation is NaN or infinite.
    """
    if not isinstance(innermost, NamesAgents):
        reply = attrs.evolve(reply, actor_id=actor)  # type: ignore[arg-type]  # a name is refused there
        return Told(checked_reply(reply, innermost, is_first=is_first), _as_it_is)
    try:
        replies = innermost.by_agent(reply, actor)
    except EnvError as error:
        error.owner = OWNER
        raise
    checked = {agent: checked_reply(own, innermost, is_first=False) for agent, own in replies.items()}
    joined = innermost.together(checked, is_first=is_first)
    if joined is not None:
        joined = attrs.evolve(joined, events=reply.events)
    if actor is not None:
        (agent,) = replies
        return Told(joined, lambda actions: None if actions is None else actions.get(agent))
    return Told(joined, _as_it_is)


def _as_it_is(action: Any) -> Any:
    return action
