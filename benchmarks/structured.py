"""The walk of `kinds.py`'s structured rows, with one policy key or several that decide in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import Action, ActorID, Observation, StructuredSpaces
from maze_runtime.env.flat import FlatEnv


class Walk(FlatEnv):
    """A random walk of four numbers, pushed by the action, for a hundred decisions.

    Args:
        keys: policy keys that decide in turn; a step of time is one round of them.
    """

    def __init__(self, *, keys: tuple[str, ...] = ("0",)) -> None:
        place = spaces.Dict(place=spaces.Box(-np.inf, np.inf, (4,), np.float32))
        push = spaces.Dict(push=spaces.Discrete(2))
        self._keys = keys
        self.structured_spaces = StructuredSpaces(
            observation=dict.fromkeys(keys, place),
            action=dict.fromkeys(keys, push),
            agent_counts=dict.fromkeys(keys, 1),
        )
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._place, self._n_decisions = np.zeros(4, np.float32), 0
        return {"place": self._place}, {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._n_decisions += 1
        self._place += 0.1 * (self._rng.standard_normal(4, np.float32) + action["push"] - 0.5)
        return {"place": self._place}, -float(abs(self._place[0])), self._n_decisions == 100, False, {}

    def actor_id(self) -> ActorID:
        return ActorID(self._keys[self._n_decisions % len(self._keys)], 0)

    def is_flat_step_end(self) -> bool:
        return self._n_decisions % len(self._keys) == 0
