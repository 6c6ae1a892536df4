"""Exploration of a deterministic policy: noise on the numbers it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_runtime.env.actor_columns import ActorColumns
from maze_runtime.env.box_bounds import bounds_of


class GaussianNoise:
    """Implements `Policy`: the mode of another policy plus normal noise, cut to the bounds of the space.

    Source: Fujimoto et al. 2018, algorithm 1. Asked to be deterministic, it adds nothing.

    Args:
        policy: whose actions are the middle.
        spaces: of the environment; actions are Dicts of Box spaces.
        correlation: ρ of an actor's noise in two decisions one after the other, 0 to below 1:
            n_t = ρ n_{t−1} + sqrt(1 − ρ²) ε_t, begun anew with every episode. That of the Ornstein-Uhlenbeck process
            of DDPG is 1 − θ = 0.85 (Lillicrap et al. 2016, section 7).

    Attributes:
        scale: standard deviation in half widths of a bounded number, and in its own unit of an unbounded one.
    """

    def __init__(self, policy: Policy, spaces: StructuredSpaces, correlation: float = 0.0) -> None:
        self.scale = 0.0
        self._policy = policy
        self._boxes = {key: dict(spaces.action[key].items()) for key in spaces.policy_keys}
        self._units = {key: {n: _unit(box) for n, box in boxes.items()} for key, boxes in self._boxes.items()}
        self._rng = np.random.default_rng()
        self._correlation = correlation
        self._walks = {(key, n): _Walk(unit.shape) for key, units in self._units.items() for n, unit in units.items()}

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, rows as in the group."""
        actions = self._policy.act(policy_key, group, deterministic=True)
        if deterministic or not self.scale:
            return actions
        noisy = {}
        for name, box in self._boxes[policy_key].items():
            action = actions[name]
            noise: np.ndarray = self._rng.standard_normal(action.shape, np.float32)
            if self._correlation:
                noise = self._walks[policy_key, name].step(noise, self._correlation, group.env_index, group.agent_id)
            noise = noise * (self.scale * self._units[policy_key][name])
            noisy[name] = np.clip(action + noise, box.low, box.high).astype(action.dtype)  # type: ignore[attr-defined]
        return noisy

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """New episodes start in these environments."""
        self._policy.begin_episodes(env_index)
        for walk in self._walks.values():
            walk.forget(env_index)

    def seed(self, seed: int) -> None:
        """Start the random stream again."""
        self._policy.seed(seed)
        self._rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Random state and `scale`; what noise of later decisions goes on from is forgotten with the episodes."""
        own = {"rng": dict(self._rng.bit_generator.state), "scale": self.scale}
        return {**own, "policy": self._policy.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = dict(state["rng"])
        self.scale = float(state["scale"])
        self._policy.load_state_dict(state["policy"])


class _Walk:
    """The noise of every actor's last decision, NaN where none was taken in its episode."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._last = np.full((0, 0, *shape), np.nan, np.float32)
        self._columns = ActorColumns()

    def step(self, fresh: np.ndarray, correlation: float, env_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
        """The next noise of some actors (n, …), of standard normal numbers (n, …)."""
        column = self._columns.of(env_index, agent_id)
        self._grow(int(env_index.max(initial=-1)) + 1, int(column.max(initial=-1)) + 1)
        before = self._last[env_index, column]
        going_on = np.float32(correlation) * before + np.float32(np.sqrt(1.0 - correlation**2)) * fresh
        noise: np.ndarray = np.where(np.isnan(before), fresh, going_on)
        self._last[env_index, column] = noise
        return noise

    def forget(self, env_index: np.ndarray) -> None:
        """Episodes begin anew in these environments."""
        self._columns.forget(env_index)
        self._last[env_index[env_index < len(self._last)]] = np.nan

    def _grow(self, n_envs: int, n_columns: int) -> None:
        missing = [(0, max(0, n - size)) for n, size in zip((n_envs, n_columns), self._last.shape, strict=False)]
        if any(more for _, more in missing):
            rest = [(0, 0)] * (self._last.ndim - 2)
            self._last = np.pad(self._last, [*missing, *rest], constant_values=np.nan)


def _unit(box: spaces.Space[Any]) -> np.ndarray:
    """Half widths of the numbers of a Box, 1 where a side is open; in its shape, float32."""
    assert isinstance(box, spaces.Box)
    return bounds_of(box).half_width.astype(np.float32)
