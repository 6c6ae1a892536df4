"""Exploration of a deterministic policy: noise on the numbers it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import ArrayDict, Group


class GaussianNoise:
    """Implements `Policy`: the mode of another policy plus normal noise, cut to the bounds of the space.

    Source: Fujimoto et al. 2018, algorithm 1. Asked to be deterministic, it adds nothing.

    Args:
        policy: whose actions are the middle.
        actions: policy key to its Dict of Box spaces.

    Attributes:
        scale: standard deviation in half widths of a bounded number, and in its own unit of an unbounded one.
    """

    def __init__(self, policy: Policy, spaces: StructuredSpaces) -> None:
        self.scale = 0.0
        self._policy = policy
        self._boxes = {key: dict(spaces.action[key].items()) for key in spaces.policy_keys}
        self._units = {key: {n: _unit(box) for n, box in boxes.items()} for key, boxes in self._boxes.items()}
        self._rng = np.random.default_rng()

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, rows as in the group."""
        actions = self._policy.act(policy_key, group, deterministic=True)
        if deterministic or not self.scale:
            return actions
        noisy = {}
        for name, box in self._boxes[policy_key].items():
            action = actions[name]
            noise = self._rng.standard_normal(action.shape, np.float32) * (self.scale * self._units[policy_key][name])
            noisy[name] = np.clip(action + noise, box.low, box.high).astype(action.dtype)  # type: ignore[attr-defined]
        return noisy

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """New episodes start in these environments."""
        self._policy.begin_episodes(env_index)

    def seed(self, seed: int) -> None:
        """Start the random stream again."""
        self._policy.seed(seed)
        self._rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Random state and `scale`."""
        own = {"rng": dict(self._rng.bit_generator.state), "scale": self.scale}
        return {**own, "policy": self._policy.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = dict(state["rng"])
        self.scale = float(state["scale"])
        self._policy.load_state_dict(state["policy"])


def _unit(box: spaces.Space[Any]) -> np.ndarray:
    """Half widths of the numbers of a Box, 1 where a side is open; in its shape, float32."""
    assert isinstance(box, spaces.Box)
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        return np.where(bounded, (high - low) / 2, 1.0).astype(np.float32)
