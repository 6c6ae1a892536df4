"""The mask of an action that is split, as masks of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_kernel.errors import RequestError
from maze_runtime.env.mask_reading import mask_names

if TYPE_CHECKING:
    from torch import Tensor

    from maze_kernel.contracts.env import Observation


class SplitMasks:
    """Takes masks of split heads apart: entries of an element's choices go with the element.

    Args:
        observation: the space that holds the masks.
        action: head to space, before the split.
        heads: head to its parts, name to elements.
        owner: for messages.

    Raises:
        RequestError: an observation has the name of a part's mask already.

    Attributes:
        space: the observations with `<part>_mask` in place of each mask.
    """

    def __init__(
        self,
        observation: spaces.Dict,
        action: spaces.Dict,
        heads: Mapping[str, Mapping[str, Sequence[int]]],
        owner: str,
    ) -> None:
        names = {head: name for head, name in mask_names(observation, action).items() if head in heads}
        self._n_axes = {name: len(observation.spaces[name].shape or ()) for name in names.values()}
        self._columns: dict[str, tuple[str, np.ndarray]] = {}
        """Of each part the mask that it is taken from, and which entries of it."""
        for head, name in names.items():
            first = np.cumsum([0, *_n_entries(action[head])])
            for part, elements in heads[head].items():
                columns = np.concatenate([np.arange(first[element], first[element + 1]) for element in elements])
                self._columns[f"{part}_mask"] = name, columns
        rest = {name: space for name, space in observation.spaces.items() if name not in self._n_axes}
        if taken := sorted(rest.keys() & self._columns.keys()):
            raise RequestError(
                f"the mask of a part would be called {taken[0]!r}, as an observation is",
                option="heads",
                owner=owner,
                help="rename the part",
            )
        own = {name: spaces.MultiBinary(len(columns)) for name, (_, columns) in self._columns.items()}
        self.space = spaces.Dict({**rest, **own})

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._columns)

    def split(self, observation: Observation) -> dict[str, np.ndarray]:
        """Inner observation to outer."""
        result = {name: value for name, value in observation.items() if name not in self._n_axes}
        for part, (name, columns) in self._columns.items():
            mask = np.asarray(observation[name])
            entries = mask.reshape(*mask.shape[: mask.ndim - self._n_axes[name]], -1)
            result[part] = (entries[..., columns] != 0).astype(np.int8)
        return result

    def split_tensors(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """`split` in torch operations on (B, …) tensors."""
        import torch

        result = {name: value for name, value in observation.items() if name not in self._n_axes}
        for part, (name, columns) in self._columns.items():
            entries = observation[name].flatten(1)[:, torch.from_numpy(columns)]
            result[part] = (entries != 0).to(torch.int8)
        return result


def _n_entries(space: spaces.Space[Any]) -> list[int]:
    """Entries of the mask for each element of a vector of choices or bits."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec]
    return [1] * int(np.prod(space.shape or ()))
