"""The heads of one action as one head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import SpaceError

if TYPE_CHECKING:
    from torch import Tensor

_DISCRETE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class JoinedActions:
    """Maps the actions of one policy key.

    Args:
        inner: the Dict of heads.
        observation: the space that holds their masks.
        name: of the one head.

    Attributes:
        space: of the one head.
        observation_space: with the joined mask.

    Raises:
        SpaceError: continuous and discrete heads together.
    """

    def __init__(self, inner: spaces.Dict, observation: spaces.Dict, name: str) -> None:
        self._heads = dict(inner.spaces)
        self._mask_name = f"{name}_mask"
        self._masks = [f"{head}_mask" for head in self._heads if f"{head}_mask" in observation.spaces]
        self._mask_ndim = len(observation.spaces[self._masks[0]].shape or ()) if self._masks else 0
        self._sizes = [int(np.prod(space.shape or (1,))) for space in self._heads.values()]
        self.space = self._joined_space()
        self.observation_space = self._with_mask(observation)

    def join(self, action: dict[str, np.ndarray]) -> np.ndarray:
        """Inner action to outer, with any leading batch dimensions."""
        if len(self._heads) == 1:
            return action[next(iter(self._heads))]
        parts = []
        for head, space in self._heads.items():
            value = np.asarray(action[head])
            lead = value.shape[: value.ndim - len(space.shape or ())]
            parts.append(value.reshape(*lead, -1) - _start(space))
        return np.concatenate(parts, axis=-1).astype(self.space.dtype)

    def split(self, action: np.ndarray) -> dict[str, np.ndarray]:
        """Outer action to inner, with any leading batch dimensions."""
        if len(self._heads) == 1:
            return {next(iter(self._heads)): action}
        parts = np.split(action, np.cumsum(self._sizes)[:-1], axis=-1)
        return {
            head: (part + _start(space)).reshape((*part.shape[:-1], *(space.shape or ()))).astype(space.dtype)
            for (head, space), part in zip(self._heads.items(), parts, strict=True)
        }

    def split_tensor(self, action: Tensor) -> dict[str, Tensor]:
        """The same of a tensor."""
        import torch

        if len(self._heads) == 1:
            return {next(iter(self._heads)): action}
        parts = torch.split(action, self._sizes, dim=-1)
        return {
            head: (part + torch.as_tensor(_start(space))).reshape(*part.shape[:-1], *(space.shape or ()))
            for (head, space), part in zip(self._heads.items(), parts, strict=True)
        }

    def join_masks(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The masks of the heads, one after the other, under the joined head's name."""
        if not self._masks:
            return observation
        result = {name: value for name, value in observation.items() if name not in self._masks}
        if len(self._heads) == 1:
            return {**result, self._mask_name: observation[self._masks[0]]}
        given = np.asarray(observation[self._masks[0]])
        lead = given.shape[: given.ndim - self._mask_ndim]
        parts = [
            self._mask_of(head, space, observation, lead).reshape(*lead, -1) for head, space in self._heads.items()
        ]
        return {**result, self._mask_name: np.concatenate(parts, axis=-1).astype(np.int8)}

    def join_mask_tensors(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same of tensors."""
        import torch

        if not self._masks:
            return observation
        result = {name: value for name, value in observation.items() if name not in self._masks}
        given = observation[self._masks[0]]
        if len(self._heads) == 1:
            return {**result, self._mask_name: given}
        rows = given.reshape(given.shape[0], -1)[:, :1]
        parts = [self._mask_tensor_of(head, space, observation, rows) for head, space in self._heads.items()]
        return {**result, self._mask_name: torch.cat(parts, dim=-1).to(torch.int8)}

    def _mask_tensor_of(
        self, head: str, space: spaces.Space[Any], observation: dict[str, Tensor], rows: Tensor
    ) -> Tensor:
        """(B, choices); `rows` (B, 1) is any tensor of that length."""
        import torch

        mask = observation.get(f"{head}_mask")
        if mask is None:
            return torch.ones_like(rows).expand(-1, int(np.sum(_choices(space))))
        mask = mask.reshape(rows.shape[0], -1)
        if isinstance(space, spaces.MultiBinary):
            return torch.stack([torch.ones_like(mask), mask], dim=-1).reshape(rows.shape[0], -1)
        return mask

    def _mask_of(
        self, head: str, space: spaces.Space[Any], observation: dict[str, np.ndarray], lead: tuple[int, ...]
    ) -> np.ndarray:
        mask = observation.get(f"{head}_mask")
        if isinstance(space, spaces.MultiBinary):
            allowed = np.ones((*lead, *space.shape), np.int8) if mask is None else np.asarray(mask)
            return np.stack([np.ones_like(allowed), allowed], axis=-1)
        return np.ones((*lead, int(np.sum(_choices(space)))), np.int8) if mask is None else np.asarray(mask)

    def _joined_space(self) -> spaces.Space[Any]:
        heads = list(self._heads.values())
        if len(heads) == 1:
            return heads[0]
        if all(isinstance(space, spaces.Box) for space in heads):
            boxes: list[Any] = heads
            dtype = np.result_type(*(box.dtype for box in boxes))
            low, high = (np.concatenate([getattr(box, side).ravel() for box in boxes]) for side in ("low", "high"))
            return spaces.Box(low, high, low.shape, dtype.type)
        if all(isinstance(space, _DISCRETE) for space in heads):
            return spaces.MultiDiscrete(np.concatenate([_choices(space) for space in heads]))
        raise SpaceError(
            "continuous and discrete actions cannot be joined",
            received=", ".join(f"{head}: {space}" for head, space in self._heads.items()),
            owner="maze-wrappers: no-dict-action",
            help="put discretize-actions before it",
        )

    def _with_mask(self, observation: spaces.Dict) -> spaces.Dict:
        if not self._masks:
            return observation
        rest = {name: space for name, space in observation.spaces.items() if name not in self._masks}
        if len(self._heads) == 1:
            return spaces.Dict({**rest, self._mask_name: observation.spaces[self._masks[0]]})
        assert isinstance(self.space, spaces.MultiDiscrete)
        return spaces.Dict({**rest, self._mask_name: spaces.MultiBinary(int(np.sum(self.space.nvec)))})


def _choices(space: spaces.Space[Any]) -> np.ndarray:
    """Number of choices of every element."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n])
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.nvec).ravel()
    return np.full(int(np.prod(space.shape or ())), 2)


def _start(space: spaces.Space[Any]) -> Any:
    return np.asarray(space.start).ravel() if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else 0
