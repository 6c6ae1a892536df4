"""Exploration around any policy: now and then an action at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import Policy, PolicyContext
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_runtime.env.seeding import SeedTree
from maze_runtime.rollout.random_policy import RandomPolicy


class EpsilonGreedy:
    """Implements `Policy`: the mode of another policy; with probability `epsilon` an action drawn uniformly.

    Masks are respected, see `RandomPolicy`. Asked to be deterministic, it never explores.

    Args:
        policy: whose actions are the greedy ones.
        spaces: of the environment.
        epsilon: see the attribute.
        seed: of the exploration.

    Attributes:
        epsilon: probability of an action at random, in each environment for itself; a trainer lowers it.
    """

    def __init__(self, policy: Policy, spaces: StructuredSpaces, *, epsilon: float = 0.0, seed: int = 0) -> None:
        self.epsilon = epsilon
        self._policy = policy
        self._random = RandomPolicy(PolicyContext(spaces=spaces, seed=_of_actions(seed)))
        self._rng = np.random.default_rng(seed)

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, rows as in the group."""
        actions = self._policy.act(policy_key, group, deterministic=True)
        if deterministic:
            return actions
        explores = self._rng.random(len(group.env_index)) < self.epsilon
        if not explores.any():
            return actions
        drawn = self._random.act(policy_key, group)
        return {head: _rows(explores, drawn[head], array) for head, array in actions.items()}

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """New episodes start in these environments."""
        self._policy.begin_episodes(env_index)

    def seed(self, seed: int) -> None:
        """Start all random streams again."""
        self._policy.seed(seed)
        self._random.seed(_of_actions(seed))
        self._rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """Random states and `epsilon`."""
        own = {"rng": dict(self._rng.bit_generator.state), "epsilon": self.epsilon}
        return {**own, "policy": self._policy.state_dict(), "random": self._random.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._rng.bit_generator.state = dict(state["rng"])
        self.epsilon = float(state["epsilon"])
        self._policy.load_state_dict(state["policy"])
        self._random.load_state_dict(state["random"])


def _of_actions(seed: int) -> int:
    """Numbers that say whether to explore are not those that say how."""
    return SeedTree(seed).seed("random-actions")


def _rows(chosen: np.ndarray, first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Rows of `first` where `chosen` (n,), else of `other`; (n, …)."""
    mixed = np.array(other)
    mixed[chosen] = first[chosen]
    return mixed
