"""Gymnasium tasks whose action is chosen in two decisions: structured versions of environments that peers play flat."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID
from maze_suite import FlatEnv, StructuredSpaces


class TwoDecisions(FlatEnv):
    """ "first" chooses the first half of a Box action, "second", which sees it, the rest; then the task takes a step.

    Args:
        id: of a Gymnasium task with observations and actions of one axis.
    """

    def __init__(self, *, id: str) -> None:
        self.env = gymnasium.make(id)
        observation, action = self.env.observation_space, self.env.action_space
        assert isinstance(observation, spaces.Box)
        assert isinstance(action, spaces.Box)
        half = action.shape[0] // 2
        seen = spaces.Box(-np.inf, np.inf, observation.shape, np.float32)
        taken = spaces.Box(action.low[:half], action.high[:half])
        self.structured_spaces = StructuredSpaces(
            observation={"first": spaces.Dict(state=seen), "second": spaces.Dict(state=seen, taken=taken)},
            action={
                "first": spaces.Dict(half=taken),
                "second": spaces.Dict(half=spaces.Box(action.low[half:], action.high[half:])),
            },
            agent_counts={"first": 1, "second": 1},
        )
        self._taken: np.ndarray | None = None

    def actor_id(self) -> ActorID:
        """Who decides next."""
        return ActorID("first" if self._taken is None else "second", 0)

    def is_flat_step_end(self) -> bool:
        """A step of time is one of the task."""
        return self._taken is None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        state, _ = self.env.reset(seed=seed)
        self._state, self._taken = np.asarray(state, np.float32), None
        return {"state": self._state}, {}

    def step(self, action: Any) -> Any:
        """Keep the first half, or take a step with both."""
        half = np.asarray(action["half"], np.float32)
        if self._taken is None:
            self._taken = half
            return {"state": self._state, "taken": half}, 0.0, False, False, {}
        state, reward, terminated, truncated, _ = self.env.step(np.concatenate([self._taken, half]))
        self._state, self._taken = np.asarray(state, np.float32), None
        return {"state": self._state}, float(reward), bool(terminated), bool(truncated), {}

    def get_maze_state(self) -> np.ndarray:
        """What the task shows."""
        return self._state

    def close(self) -> None:
        """Close the task."""
        self.env.close()
