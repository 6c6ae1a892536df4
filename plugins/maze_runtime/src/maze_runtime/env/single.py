"""One environment as a batch of one: for whoever applies transforms to single observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import ActorID, Observation
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick

_FIRST = np.zeros(1, np.int64)


def batch_of_one(values: Mapping[str, Any]) -> ArrayDict:
    """Name to (1, ...) arrays."""
    return {name: np.asarray(value)[None] for name, value in values.items()}


def tick_of_one(
    actor: ActorID,
    observation: Observation,
    reward: float = 0.0,
    terminated: bool = False,
    truncated: bool = False,
    flat_step_end: bool = True,
) -> Tick:
    """The tick of one environment; an observation that ends the episode is a final one, and there is no other."""
    rows, agent = batch_of_one(observation), np.array([actor.agent_id])
    tick = Tick(
        {},
        np.array([reward], np.float32),
        np.array([terminated]),
        np.array([truncated]),
        flat_step_end=np.array([flat_step_end]),
    )
    if terminated or truncated:
        tick.final_observation[actor.step_key] = FinalObservation(_FIRST, rows, agent)
    else:
        tick.groups[actor.step_key] = Group(_FIRST, agent, rows)
    return tick


def only_row(tick: Tick) -> Observation:
    """The one observation of a tick that `tick_of_one` made."""
    parts: list[Any] = [*tick.groups.values(), *tick.final_observation.values()]
    (part,) = parts
    return {name: array[0] for name, array in part.observation.items()}
