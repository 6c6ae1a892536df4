"""Observations and actions under one key, for whoever cannot work with several.

Inside Maze spaces stay Dicts, with this one key; `to_gymnasium` hands a space with one key on without the Dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_wrappers.joined_actions import JoinedActions
from maze_wrappers.joined_observations import JoinedObservations
from maze_wrappers.options import NoDictActionOptions, NoDictObservationOptions, NoDictSpacesOptions

if TYPE_CHECKING:
    from torch import Tensor


class NoDictObservation(Transform):
    """All of an observation as one array: the only key keeps its array, several are flattened and joined.

    Boxes are flattened, categories become one-hot vectors; the outcome is a float32 vector. Masks stay keys
    of their own, because policies look for them by name, unless `masks` says otherwise.
    """

    def __init__(self, options: NoDictObservationOptions) -> None:
        self.options = options
        self._joined: dict[PolicyKey, JoinedObservations] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with one key an observation."""
        self._joined = {
            key: JoinedObservations(space, inner.action[key], self.options.key, self.options.masks)
            for key, space in inner.observation.items()
        }
        return attrs.evolve(inner, observation={key: joined.space for key, joined in self._joined.items()})

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer."""
        return self._joined[policy_key].join(observation)

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return self._joined[policy_key].join_tensors(observation)


class NoDictAction(Transform):
    """All heads of an action as one: the only head keeps its space, several become one MultiDiscrete or one Box.

    Heads must be all continuous, or all Discrete, MultiDiscrete or MultiBinary. Their masks are joined to the mask of
    the one head.

    Raises:
        RequestError: from `bind`, where an observation has the name of that mask already.
        SpaceError: from `bind`, for continuous and discrete heads together.
    """

    def __init__(self, options: NoDictActionOptions) -> None:
        self.options = options
        self._joined: dict[PolicyKey, JoinedActions] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with one head an action."""
        self._joined = {
            key: JoinedActions(space, inner.observation[key], self.options.key) for key, space in inner.action.items()
        }
        return attrs.evolve(
            inner,
            observation={key: joined.observation_space for key, joined in self._joined.items()},
            action={key: spaces.Dict({self.options.key: joined.space}) for key, joined in self._joined.items()},
        )

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer: masks joined, all else as it is."""
        return self._joined[policy_key].join_masks(observation)

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return self._joined[policy_key].join_mask_tensors(observation)

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return self._joined[policy_key].split(np.asarray(action[self.options.key]))

    def export_action(self, policy_key: PolicyKey, action: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return self._joined[policy_key].split_tensor(action[self.options.key])

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer."""
        return {self.options.key: self._joined[policy_key].join(action)}


class NoDictSpaces(Transform):
    """`no-dict-observation` and `no-dict-action` together."""

    def __init__(self, options: NoDictSpacesOptions) -> None:
        self._observation = NoDictObservation(
            NoDictObservationOptions(key=options.observation_key, masks=options.masks)
        )
        self._action = NoDictAction(NoDictActionOptions(key=options.action_key))

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with one key each."""
        return self._observation.bind(self._action.bind(inner))

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer."""
        return self._observation.observation(policy_key, self._action.observation(policy_key, observation))

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return self._observation.export_observation(
            policy_key, self._action.export_observation(policy_key, observation)
        )

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return self._action.action(policy_key, action)

    def export_action(self, policy_key: PolicyKey, action: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same in torch."""
        return self._action.export_action(policy_key, action)

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer."""
        return self._action.reverse_action(policy_key, action)
