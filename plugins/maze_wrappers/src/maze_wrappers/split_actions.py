"""One action head as several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import RequestError, SpaceError
from maze_wrappers.known_names import require_known
from maze_wrappers.options import SplitActionsOptions
from maze_wrappers.split_masks import SplitMasks

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: split-actions"


class SplitActions(Transform):
    """Elements of a vector of actions become heads of their own, e.g. to give each its own distribution.

    Box, MultiDiscrete and MultiBinary vectors can be split. A part of a MultiDiscrete with one element is a Discrete.
    The mask of a head is taken apart with it: each part has its own, `<part>_mask`.

    Raises:
        RequestError: from `bind`, where a head does not exist, the parts do not hold each element once, or a name is
            taken.
        SpaceError: from `bind`, where a head is no vector of these kinds.
    """

    def __init__(self, options: SplitActionsOptions) -> None:
        self.options = options
        self._inner: dict[PolicyKey, spaces.Dict] = {}
        self._masks: dict[PolicyKey, SplitMasks] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with the parts in place of the whole."""
        known = {head for space in inner.action.values() for head in space.spaces}
        require_known(self.options.heads, known, "there is no action {} to split", option="heads", owner=OWNER)
        self._inner = dict(inner.action)
        action = {key: self._outer(space) for key, space in inner.action.items()}
        self._masks = {
            key: SplitMasks(inner.observation[key], space, self.options.heads, OWNER)
            for key, space in inner.action.items()
        }
        observation = {key: masks.space if masks else inner.observation[key] for key, masks in self._masks.items()}
        return attrs.evolve(inner, action=action, observation=observation)

    def changes(self, what: Literal["observation", "action", "reward"]) -> bool:
        """Observations where there is a mask."""
        return super().changes(what) and (what != "observation" or any(self._masks.values()))

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer: masks by part, all else as it is."""
        masks = self._masks[policy_key]
        return masks.split(observation) if masks else observation

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """`observation` in torch operations."""
        masks = self._masks[policy_key]
        return masks.split_tensors(observation) if masks else observation

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return {
            head: _whole(leaf, parts, action) if (parts := self.options.heads.get(head)) else action[head]
            for head, leaf in self._inner[policy_key].spaces.items()
        }

    def export_action(self, policy_key: PolicyKey, action: dict[str, Tensor]) -> dict[str, Tensor]:
        """`action` in torch operations on (B, …) tensors."""
        return {
            head: _whole_tensor(parts, action) if (parts := self.options.heads.get(head)) else action[head]
            for head in self._inner[policy_key].spaces
        }

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer."""
        result: dict[str, np.ndarray] = {}
        for head, leaf in self._inner[policy_key].spaces.items():
            parts = self.options.heads.get(head)
            if parts is None:
                result[head] = action[head]
                continue
            for name, indices in parts.items():
                part = np.asarray(action[head])[..., list(indices)]
                is_scalar = isinstance(leaf, spaces.MultiDiscrete) and len(indices) == 1
                result[name] = part[..., 0] if is_scalar else part
        return result

    def _outer(self, space: spaces.Dict) -> spaces.Dict:
        heads: dict[str, spaces.Space[Any]] = {}
        for head, leaf in space.spaces.items():
            parts = self.options.heads.get(head)
            named = {head: leaf} if parts is None else _parts(head, leaf, parts)
            if taken := [name for name in named if name in heads or (name != head and name in space.spaces)]:
                raise RequestError(
                    f"two actions would be called {taken[0]!r}", option="heads", owner=OWNER, help="rename the part"
                )
            heads |= named
        return spaces.Dict(heads)


def _whole(leaf: spaces.Space[Any], parts: Mapping[str, Sequence[int]], action: dict[str, np.ndarray]) -> np.ndarray:
    """The head of these parts."""
    name, indices = next(iter(parts.items()))
    first = np.asarray(action[name])
    is_scalar = isinstance(leaf, spaces.MultiDiscrete) and len(indices) == 1
    whole = np.zeros((*(first.shape if is_scalar else first.shape[:-1]), *leaf.shape), leaf.dtype)  # type: ignore[misc]
    for name, indices in parts.items():
        whole[..., list(indices)] = np.asarray(action[name]).reshape(*whole.shape[:-1], len(indices))
    return whole


def _whole_tensor(parts: Mapping[str, Sequence[int]], action: dict[str, Tensor]) -> Tensor:
    """The same of tensors (B, …)."""
    import torch

    joined = torch.cat([action[name].reshape(-1, len(indices)) for name, indices in parts.items()], dim=-1)
    order = [index for indices in parts.values() for index in indices]
    return joined[:, [order.index(index) for index in range(len(order))]]


def _parts(head: str, leaf: spaces.Space[Any], parts: Mapping[str, Sequence[int]]) -> dict[str, spaces.Space[Any]]:
    if not isinstance(leaf, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)) or len(leaf.shape) != 1:
        raise SpaceError(
            f"the action {head!r} is no vector that could be split",
            received=str(leaf),
            expected="a Box, MultiDiscrete or MultiBinary with one dimension",
            option="heads",
            owner=OWNER,
            help="leave this action out of heads",
        )
    if sorted(index for indices in parts.values() for index in indices) != list(range(leaf.shape[0])):
        raise RequestError(
            f"the parts of {head!r} must hold each of its elements once",
            received=str({name: list(indices) for name, indices in parts.items()}),
            expected=f"0 … {leaf.shape[0] - 1}",
            option="heads",
            owner=OWNER,
            help="give each element to one part",
        )
    return {name: _part(leaf, list(indices)) for name, indices in parts.items()}


def _part(leaf: spaces.Space[Any], indices: list[int]) -> spaces.Space[Any]:
    if isinstance(leaf, spaces.Box):
        return spaces.Box(leaf.low[indices], leaf.high[indices], (len(indices),), leaf.dtype.type)
    if isinstance(leaf, spaces.MultiDiscrete):
        nvec, start = np.asarray(leaf.nvec)[indices], np.asarray(leaf.start)[indices]
        if len(indices) == 1:
            return spaces.Discrete(int(nvec[0]), start=int(start[0]))
        return spaces.MultiDiscrete(nvec, start=start)
    return spaces.MultiBinary(len(indices))
