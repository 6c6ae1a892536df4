"""What a caller hands to a deployed agent is checked before anything changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID, PolicyKey, StructuredSpaces
from maze_kernel.errors import EnvError, MazeError, NonFiniteError
from maze_runtime.env.batching import check_observation, scalar_reward
from maze_runtime.env.outside import Detachable, NamesAgents, Reply, first_actor

OWNER = "the caller of AgentDeployment.act"


def checked_reply(reply: Reply, innermost: Detachable, *, is_first: bool) -> Reply:
    """The reply with a plain number as its reward.

    Args:
        innermost: knows what observation a state gives.
        is_first: whether it begins an episode.

    Raises:
        EnvError: an argument of `act` is malformed.
        NonFiniteError: the reward or the observation is NaN or infinite.
    """
    if not isinstance(reply.info, Mapping):
        raise _wrong("info is no dict", type(reply.info).__name__, "a dict or None")
    flags: dict[str, Any] = {}
    for name in ("terminated", "truncated", "flat_step_end"):
        value = getattr(reply, name)
        if not isinstance(value, (bool, np.bool_)):
            raise _wrong(f"{name} is no truth value", repr(value)[:200], "True or False")
        flags[name] = bool(value)
    if is_first and (flags["terminated"] or flags["truncated"]):
        raise _wrong(
            "the first state of an episode cannot end it",
            "terminated or truncated, and no action to judge",
            "the state that the episode begins with",
        )
    reply = attrs.evolve(reply, reward=_reward(reply.reward), info=dict(reply.info), **flags)
    if not (reply.maze_state is None and reply.ends_episode and isinstance(innermost, NamesAgents)):
        _check_state(reply, innermost)  # what an agent sees that is out need not be told
    return reply


def _reward(value: Any) -> float:
    try:
        reward = scalar_reward(value)
    except EnvError as error:
        error.owner = OWNER
        raise
    if not math.isfinite(reward):
        raise NonFiniteError("the reward is not finite", received=str(reward), expected="a number", owner=OWNER)
    return reward


def _check_state(reply: Reply, innermost: Detachable) -> None:
    structured_spaces: StructuredSpaces = innermost.structured_spaces  # type: ignore[attr-defined]
    all_spaces = structured_spaces.observation
    key = _policy_key(reply.actor_id or first_actor(structured_spaces), structured_spaces)
    try:
        observation = innermost.preview(reply)
        check_observation(all_spaces[key], observation)
    except MazeError as error:
        error.owner = OWNER
        raise
    except Exception as error:
        raise EnvError(
            f"no observation can be made of the state: {type(error).__name__}: {error}",
            received=repr(reply.maze_state)[:200],
            expected=f"what {type(innermost).__name__} turns into {all_spaces[key]}",
            owner=OWNER,
            help="give the state in the simulation's own words, as its environment's step returns it",
        ) from error
    for name, leaf in all_spaces[key].spaces.items():
        _check_values(name, key, leaf, np.asarray(observation[name]))


def _policy_key(actor: Any, structured_spaces: StructuredSpaces) -> PolicyKey:
    if not isinstance(actor, ActorID):
        raise _wrong("actor_id is no ActorID", repr(actor)[:200], "ActorID(policy key, agent), or None")
    if actor.step_key not in structured_spaces.observation:
        known = ", ".join(map(repr, structured_spaces.policy_keys))
        raise _wrong("actor_id names an unknown policy key", repr(actor.step_key), known)
    n_agents = structured_spaces.agent_counts[actor.step_key]
    if actor.agent_id < 0 or 1 <= n_agents <= actor.agent_id:
        expected = f"0 to {n_agents - 1}" if n_agents > 0 else "0 or more"
        raise _wrong(f"actor_id names an agent of {actor.step_key!r} that is not there", str(actor.agent_id), expected)
    return actor.step_key


def _check_values(name: str, key: PolicyKey, leaf: spaces.Space[Any], value: np.ndarray) -> None:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise NonFiniteError(
            f"the observation {name!r} is not finite", received=str(value)[:200], expected="numbers", owner=OWNER
        )
    if value.dtype != leaf.dtype and value.dtype.kind in "iuf":
        _check_range(name, key, value, np.dtype(leaf.dtype))
    if not isinstance(leaf, spaces.Box) and not leaf.contains(value.astype(leaf.dtype)[()]):
        raise _wrong(f"the observation {name!r} lies outside of its space", str(value)[:200], str(leaf))


def _check_range(name: str, key: PolicyKey, value: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Refuse numbers that the dtype of a space cannot hold: they would become infinite, or others."""
    with np.errstate(over="ignore"):
        stored = value.astype(dtype)
    holds = np.isfinite(stored) if dtype.kind == "f" else stored == value
    if not holds.all():
        range_of: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        raise _wrong(
            f"the observation {name!r} of policy key {key!r} holds numbers beyond {dtype}",
            str(value[~holds])[:200],
            f"numbers from {range_of.min} to {range_of.max}",
        )


def _wrong(what: str, received: str, expected: str) -> EnvError:
    return EnvError(what, received=received, expected=expected, owner=OWNER)
