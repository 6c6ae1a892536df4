"""The heads of one action as one head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import RequestError, SpaceError
from maze_runtime.env.mask_reading import mask_names

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: no-dict-action"
V = TypeVar("V")
_DISCRETE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class JoinedActions:
    """Maps the actions of one policy key.

    Args:
        inner: the Dict of heads.
        observation: the space that holds their masks, those that `mask_names` finds.
        name: of the one head.

    Attributes:
        space: of the one head.
        observation_space: with the joined mask.

    Raises:
        RequestError: an observation has the name of the joined mask already.
        SpaceError: continuous and discrete heads together.
    """

    def __init__(self, inner: spaces.Dict, observation: spaces.Dict, name: str) -> None:
        self._heads = dict(inner.spaces)
        self._mask_name = f"{name}_mask"
        self._masks = mask_names(observation, inner)
        """Head to the observation that masks it."""
        self._first_mask = next(iter(self._masks.values()), "")
        self._mask_ndim = len(observation[self._first_mask].shape or ()) if self._masks else 0
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
        return {head: _part(part, space) for (head, space), part in zip(self._heads.items(), parts, strict=True)}

    def split_tensor(self, action: Tensor) -> dict[str, Tensor]:
        """The same of a tensor."""
        import torch

        if len(self._heads) == 1:
            return {next(iter(self._heads)): action}
        parts = torch.split(action, self._sizes, dim=-1)
        return {head: _part_tensor(part, space) for (head, space), part in zip(self._heads.items(), parts, strict=True)}

    def join_masks(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The masks of the heads, one after the other, under the joined head's name."""
        if not self._masks:
            return observation
        result = self._without_masks(observation)
        given = np.asarray(observation[self._first_mask])
        if len(self._heads) == 1:
            return {**result, self._mask_name: given}
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
        result = self._without_masks(observation)
        given = observation[self._first_mask]
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

        mask = observation[self._masks[head]] if head in self._masks else None
        if mask is None:
            return torch.ones_like(rows).expand(-1, int(np.sum(_choices(space))))
        mask = mask.reshape(rows.shape[0], -1)
        if isinstance(space, spaces.MultiBinary):
            return torch.stack([torch.ones_like(mask), mask], dim=-1).reshape(rows.shape[0], -1)
        return mask

    def _mask_of(
        self, head: str, space: spaces.Space[Any], observation: dict[str, np.ndarray], lead: tuple[int, ...]
    ) -> np.ndarray:
        mask = observation[self._masks[head]] if head in self._masks else None
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
            owner=OWNER,
            help="put discretize-actions before it",
        )

    def _with_mask(self, observation: spaces.Dict) -> spaces.Dict:
        if not self._masks:
            return observation
        rest = self._without_masks(observation.spaces)
        if self._mask_name in rest:
            raise RequestError(
                f"the mask of the joined action would be called {self._mask_name!r}, as an observation is",
                owner=OWNER,
                help="give the joined action another name",
            )
        if len(self._heads) == 1:
            return spaces.Dict({**rest, self._mask_name: observation.spaces[self._first_mask]})
        assert isinstance(self.space, spaces.MultiDiscrete)
        return spaces.Dict({**rest, self._mask_name: spaces.MultiBinary(int(np.sum(self.space.nvec)))})

    def _without_masks(self, named: Mapping[str, V]) -> dict[str, V]:
        return {name: value for name, value in named.items() if name not in self._masks.values()}


def _choices(space: spaces.Space[Any]) -> np.ndarray:
    """Number of choices of every element."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n])
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.nvec).ravel()
    return np.full(int(np.prod(space.shape or ())), 2)


def _part(part: np.ndarray, space: spaces.Space[Any]) -> np.ndarray:
    """Elements of the joined action as the head they are; where that holds whole numbers, rounded."""
    if part.dtype.kind == "f" and space.dtype.kind != "f":  # type: ignore[union-attr]
        part = np.rint(part)
    inner: np.ndarray = (part + _start(space)).reshape((*part.shape[:-1], *(space.shape or ()))).astype(space.dtype)
    return inner


def _part_tensor(part: Tensor, space: spaces.Space[Any]) -> Tensor:
    """The same of a tensor."""
    import torch

    if part.is_floating_point() and space.dtype.kind != "f":  # type: ignore[union-attr]
        part = torch.round(part).to(getattr(torch, str(space.dtype)))
    return (part + torch.as_tensor(_start(space))).reshape(*part.shape[:-1], *(space.shape or ()))


def _start(space: spaces.Space[Any]) -> Any:
    return np.asarray(space.start).ravel() if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else 0
