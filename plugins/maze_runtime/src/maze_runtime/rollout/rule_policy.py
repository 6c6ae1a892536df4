"""The base of policies that act by a rule: nothing is learnt, remembered or drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict, Group


class RulePolicy(ABC):
    """Implements `Policy`; a subclass writes `act`, and the other methods too where its rule has a state."""

    @abstractmethod
    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, rows as in the group: (n, …) arrays in the action space's dtype."""

    def begin_episodes(self, env_index: np.ndarray) -> None:  # noqa: B027
        """Nothing is remembered between steps."""

    def seed(self, seed: int) -> None:  # noqa: B027
        """Nothing is random."""

    def state_dict(self) -> dict[str, Any]:
        """Empty."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Nothing to load."""
