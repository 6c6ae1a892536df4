"""Continuous actions as choices among bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import SpaceError
from maze_runtime.env.box_bounds import is_open_above, is_open_below
from maze_runtime.env.mask_reading import ANY_HEAD, mask_names
from maze_wrappers.known_names import require_known
from maze_wrappers.options import DiscretizeActionsOptions, HeadBins

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "maze-wrappers: discretize-actions"
V = TypeVar("V")


class DiscretizeActions(Transform):
    """Bin k of n between low and high means its centre, low + (k + ½) (high − low) / n.

    A Box with one element becomes Discrete, another one MultiDiscrete over its elements in C order. Actions map back
    to the bin they lie in. Bins of whole numbers lie between low − ½ and high + ½, hold one each at least and mean the
    one next to their centre. An `action_mask` whose head is no longer the only one to be masked is called
    `<head>_mask`.

    Raises:
        RequestError: from `bind`, for a head that does not exist.
        SpaceError: from `bind`, for a head that is no Box or has neither bounds nor `low` and `high`.
    """

    def __init__(self, options: DiscretizeActionsOptions) -> None:
        self.options = options
        self._bins: dict[tuple[PolicyKey, str], _Bins] = {}
        self._mask_names: dict[PolicyKey, str] = {}
        """What `action_mask` is called, where that is something else."""

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with choices in place of the Box heads."""
        known = {head for space in inner.action.values() for head in space.spaces}
        require_known(self.options.heads, known, "there is no action {} to discretise", option="heads", owner=OWNER)
        action = {key: self._outer(key, space) for key, space in inner.action.items()}
        for key, space in inner.observation.items():
            outer = mask_names(space, action[key])
            for head, name in mask_names(space, inner.action[key]).items():
                if outer.get(head) != name:
                    self._mask_names[key] = f"{head}_mask"
        observation = {
            key: spaces.Dict(list(self._renamed(key, space.spaces).items())) for key, space in inner.observation.items()
        }
        return attrs.evolve(inner, action=action, observation=observation)

    def changes(self, what: Literal["observation", "action", "reward"]) -> bool:
        """Observations where a mask has another name."""
        return super().changes(what) and (what != "observation" or bool(self._mask_names))

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer: the mask by its name, all else as it is."""
        return self._renamed(policy_key, observation)

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """`observation` in torch operations."""
        return self._renamed(policy_key, observation)

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return {head: self._converted(policy_key, head, value, "centres") for head, value in action.items()}

    def export_action(self, policy_key: PolicyKey, action: dict[str, Tensor]) -> dict[str, Tensor]:
        """`action` in torch operations."""
        bins = {head: self._bins.get((policy_key, head)) for head in action}
        return {
            head: value if (own := bins[head]) is None else own.centres_tensor(value) for head, value in action.items()
        }

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer."""
        return {head: self._converted(policy_key, head, value, "indices") for head, value in action.items()}

    def _renamed(self, key: PolicyKey, named: Mapping[str, V]) -> dict[str, V]:
        mask = self._mask_names.get(key, ANY_HEAD)
        return {mask if name == ANY_HEAD else name: value for name, value in named.items()}

    def _converted(self, key: PolicyKey, head: str, value: Any, method: str) -> Any:
        bins = self._bins.get((key, head))
        return value if bins is None else getattr(bins, method)(np.asarray(value))

    def _outer(self, key: PolicyKey, space: spaces.Dict) -> spaces.Dict:
        heads: dict[str, spaces.Space[Any]] = {}
        for head, leaf in space.spaces.items():
            wanted = self.options.heads.get(head)
            if self.options.heads and wanted is None:
                heads[head] = leaf
                continue
            if not isinstance(leaf, spaces.Box):
                if wanted is None:
                    heads[head] = leaf
                    continue
                raise SpaceError(
                    f"the action {head!r} is not continuous",
                    received=str(leaf),
                    expected="a Box",
                    option="heads",
                    owner=OWNER,
                    help="leave this action out of heads",
                )
            bins = _Bins(head, leaf, wanted or HeadBins(), self.options.n_bins)
            self._bins[key, head] = bins
            heads[head] = bins.space
        return spaces.Dict(heads)


class _Bins:
    """The bins of one head."""

    def __init__(self, head: str, box: spaces.Box, wanted: HeadBins, default: int) -> None:
        size = int(np.prod(box.shape))
        self._box = box
        self._n = _numbers(head, "n_bins", wanted.n_bins or (default,), size).astype(np.int64)
        low = box.low.ravel() if wanted.low is None else _numbers(head, "low", wanted.low, size)
        high = box.high.ravel() if wanted.high is None else _numbers(head, "high", wanted.high, size)
        low, high = low.astype(np.float64), high.astype(np.float64)
        self._is_whole = not np.issubdtype(box.dtype, np.floating)
        if self._is_whole:
            low, high = np.ceil(low), np.floor(high)
        if not (low < high).all() or is_open_below(low).any() or is_open_above(high).any():
            raise SpaceError(
                f"the action {head!r} has no finite range to divide",
                received=f"{low.tolist()} to {high.tolist()}",
                option="heads",
                owner=OWNER,
                help=f"give low and high in [wrappers.heads.{head}]",
            )
        if self._is_whole:
            low, high = low - 0.5, high + 0.5
            self._n = np.minimum(self._n, high - low).astype(np.int64)
        self._low, self._width = low, (high - low) / self._n
        self._is_single = size == 1
        self.space: spaces.Space[Any] = (
            spaces.Discrete(int(self._n[0])) if self._is_single else spaces.MultiDiscrete(self._n)
        )

    def centres(self, index: np.ndarray) -> np.ndarray:
        flat = index[..., None] if self._is_single else index
        values = self._low + (flat + 0.5) * self._width
        values = np.rint(values) if self._is_whole else values
        return values.reshape(*index.shape[: index.ndim - (not self._is_single)], *self._box.shape).astype(
            self._box.dtype
        )

    def centres_tensor(self, index: Tensor) -> Tensor:
        import torch

        flat = index.unsqueeze(-1) if self._is_single else index
        values = torch.from_numpy(self._low) + (flat + 0.5) * torch.from_numpy(self._width)
        values = torch.round(values) if self._is_whole else values
        shaped = torch.unflatten(values, -1, self._box.shape) if self._box.shape else values.squeeze(-1)
        return shaped.to(getattr(torch, str(self._box.dtype), torch.float32))

    def indices(self, value: np.ndarray) -> np.ndarray:
        lead = value.shape[: value.ndim - len(self._box.shape)]
        flat = np.floor((value.reshape(*lead, -1) - self._low) / self._width)
        index = np.clip(flat, 0, self._n - 1).astype(np.int64)
        return index[..., 0] if self._is_single else index


def _numbers(head: str, option: str, values: tuple[float, ...], size: int) -> np.ndarray:
    if len(values) not in (1, size):
        raise SpaceError(
            f"{option} does not fit the action {head!r}",
            received=f"{len(values)} numbers",
            expected=f"one number, or {size}",
            option="heads",
            owner=OWNER,
            help=f"give {option} that many numbers in [wrappers.heads.{head}]",
        )
    return np.broadcast_to(np.asarray(values), (size,))
