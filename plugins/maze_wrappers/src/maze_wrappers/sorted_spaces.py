"""Observations and actions in alphabetical order."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_wrappers.options import SortedSpacesOptions

if TYPE_CHECKING:
    from torch import Tensor


class SortedSpaces(Transform):
    """Keys of Dict spaces sorted by name, so that models do not depend on the order in which they were written."""

    def __init__(self, options: SortedSpacesOptions) -> None:
        self.options = options
        self._inner_heads: dict[PolicyKey, tuple[str, ...]] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The same spaces, sorted."""
        self._inner_heads = {key: tuple(space.spaces) for key, space in inner.action.items()}
        observation = {key: _sorted_space(space) for key, space in inner.observation.items()}
        action = {key: _sorted_space(space) for key, space in inner.action.items()}
        return attrs.evolve(inner, observation=observation, action=action)

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer."""
        return dict(sorted(observation.items()))

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return {head: action[head] for head in self._inner_heads[policy_key]}

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return dict(sorted(observation.items()))

    def export_action(self, policy_key: PolicyKey, action: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return {head: action[head] for head in self._inner_heads[policy_key]}

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer."""
        return dict(sorted(action.items()))


def _sorted_space(space: spaces.Dict) -> spaces.Dict:
    return spaces.Dict(OrderedDict(sorted(space.spaces.items())))
