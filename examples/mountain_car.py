"""A plugin beside an experiment: a policy written by hand that shows how the car gets up the mountain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from maze_kernel import hookimpl
from maze_kernel.components import PolicyComponent
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import ArrayDict, Group

MAZE_PLUGIN_API = 1


class PushAlong:
    """Always pushes in the direction of travel: swings get larger until the car is up."""

    def __init__(self, context: PolicyContext) -> None:
        (self._head,) = context.spaces.action[context.spaces.policy_keys[0]].spaces

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Full force, (n, 1), with the sign of the velocity."""
        velocity = group.observation["observation"][:, 1:2]
        return {self._head: np.where(velocity < 0.0, -1.0, 1.0).astype(np.float32)}

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """Nothing is remembered."""

    def seed(self, seed: int) -> None:
        """Nothing is random."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        return None


@hookimpl
def maze_policies() -> Iterable[PolicyComponent]:
    """The policy "push-along"."""
    yield PolicyComponent(
        name="push-along",
        target=f"{__name__}:PushAlong",
        summary="Pushes the mountain car in the direction it moves in.",
    )
