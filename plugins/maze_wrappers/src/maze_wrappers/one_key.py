"""Pre-processing of one observation key: what the six pre-processors share.

The outcome is called `<key>-<tag>`, so pre-processors chain by name: `image`, `image-rgb2gray`,
`image-rgb2gray-resize_img`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import SpaceError
from maze_wrappers.known_names import require_known
from maze_wrappers.options import OneKeyOptions

if TYPE_CHECKING:
    from torch import Tensor


class OneKey(Transform):
    """Replaces one key of the observation, under whichever policy keys observe it.

    A subclass names itself in `tag` and writes `outer_space`, `convert` and `convert_tensor`.

    Raises:
        RequestError: from `bind`, where no policy observes the key.
        SpaceError: from `bind`, where the pre-processor cannot serve the key's space.
    """

    tag: ClassVar[str]

    def __init__(self, options: OneKeyOptions) -> None:
        self.inner_name = options.observation
        self._keep_original = options.keep_original
        self.outer_name = f"{options.observation}-{self.tag}"
        self._served: dict[PolicyKey, OneKey] = {}
        """Of each policy key that observes the key one that remembers its space."""

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with the outcome's key."""
        known = {name for space in inner.observation.values() for name in space.spaces}
        require_known(
            [self.inner_name],
            known,
            "there is no observation {} to pre-process",
            option="observation",
            owner=f"maze-wrappers: {self.tag.replace('_', '-')}",
            help="name it as it is called at this place in the [[wrappers]] list, e.g. image-rgb2gray",
        )
        self._served = {}
        observation = {key: self._outer(key, space) for key, space in inner.observation.items()}
        return attrs.evolve(inner, observation=observation)

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer."""
        if self.inner_name not in observation:
            return observation
        result = dict(observation)
        value = result[self.inner_name] if self._keep_original else result.pop(self.inner_name)
        result[self.outer_name] = self._served[policy_key].convert(np.asarray(value))
        return result

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """`observation` in torch operations."""
        if self.inner_name not in observation:
            return observation
        result = dict(observation)
        value = result[self.inner_name] if self._keep_original else result.pop(self.inner_name)
        result[self.outer_name] = self._served[policy_key].convert_tensor(value)
        return result

    def outer_space(self, space: spaces.Space[Any]) -> spaces.Box:
        """The outcome's space; called before `convert`, which may rely on what is remembered here."""
        raise NotImplementedError

    def convert(self, value: np.ndarray) -> np.ndarray:
        """The outcome for a value with any number of leading batch dimensions."""
        raise NotImplementedError

    def convert_tensor(self, value: Tensor) -> Tensor:
        """`convert` in torch operations, for `maze export`."""
        raise NotImplementedError

    def _outer(self, key: PolicyKey, space: spaces.Dict) -> spaces.Dict:
        if self.inner_name not in space.spaces:
            return space
        leaves = dict(space.spaces)
        served = copy.copy(self)
        try:
            leaves[self.outer_name] = served.outer_space(leaves[self.inner_name])
        except SpaceError as error:
            error.option = error.option or "observation"
            raise
        self._served[key] = served
        if not self._keep_original:
            del leaves[self.inner_name]
        return spaces.Dict(leaves)
