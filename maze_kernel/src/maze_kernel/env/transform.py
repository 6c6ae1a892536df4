"""Transforms: wrappers that are functions on arrays with leading batch dimensions.

Written once, a transform serves one environment and a whole batch alike: `TransformedEnv` applies it to single
observations, `TransformedVectorEnv` (rollout room) to `(N, ...)` arrays. A wrapper that must see one
environment (random reset, step skipping) is an env wrapper instead: a class around a `StructuredEnv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.env.contract import PolicyKey, StructuredSpaces


class Transform:
    """The identity; a subclass overrides what it changes.

    Arrays carry any number of leading batch dimensions: none for one environment, `(N, ...)` for a batch.
    Never change an argument in place.
    """

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """Called once with the spaces of what is wrapped; returns the spaces seen from outside."""
        return inner

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer; also called for final observations."""
        return observation

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return action

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer, for imitation from recorded episodes."""
        raise NotImplementedError(f"{type(self).__name__} does not say how a recorded action maps back")

    def reward(self, reward: np.ndarray) -> np.ndarray:
        """Inner reward to outer, shape () or (N,)."""
        return reward

    def observe_step(
        self, observation: Mapping[PolicyKey, dict[str, np.ndarray]], reward: np.ndarray, ended: np.ndarray
    ) -> None:
        """Update running statistics with a batch of real transitions; called only while `training` is true.

        Args:
            observation: inner observations of this tick by policy key, `(n, ...)`; rows that only await a reset
                are left out and final observations are included, so each observation is seen once.
            reward: inner rewards, (N,).
            ended: whether the episode ended with this step, (N,).
        """

    training: bool = True
    """False while evaluating and deploying: statistics stay as they are."""

    def state_dict(self) -> dict[str, Any]:
        """Statistics to save, arrays and JSON values; empty for a stateless transform."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
