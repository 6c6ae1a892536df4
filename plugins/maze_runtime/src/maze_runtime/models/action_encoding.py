"""From an action in its space's dtype to the float vector that Q networks read. Nothing is trained here.

The vector holds the choices first, then the numbers: Discrete and each dimension of MultiDiscrete one-hot, each bit of
MultiBinary as the pair (is 0, is 1), then Box entries, moved to −1 … 1 where they are bounded on both sides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.errors import SpaceError
from maze_runtime.env.box_bounds import bounds_of
from maze_runtime.models.device_constants import DeviceConstants
from maze_runtime.models.observation_encoding import encoding_of

Choices = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def segments_of(space: spaces.Space[Any]) -> list[int]:
    """How many options each independent choice of a head has; empty for a Box."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.reshape(-1)]
    if isinstance(space, spaces.MultiBinary):
        return [2] * math.prod(space.shape)
    return []


class ActionEncoder:
    """Encodes a Dict action as one vector, and knows its layout.

    Args:
        space: the action space of one policy key.

    Attributes:
        choices: heads that choose (Discrete, MultiDiscrete, MultiBinary), in the order of their columns.
        numbers: Box heads, in the order of their columns.
        segments: options of each independent choice; they fill the first `n_choices` columns one behind the other.
        n_choices: K, columns of choices.
        size: A, all columns.
        log_scale: Σ log half width of the numbers that are moved: the log-density of an encoded action is that of the
            action in its own units plus this.

    Raises:
        SpaceError: a head of another kind.
    """

    def __init__(self, space: spaces.Dict) -> None:
        for name, head in space.spaces.items():
            if not isinstance(head, (*Choices, spaces.Box)):
                raise SpaceError(
                    f"action head {name!r} cannot be fed to a Q network",
                    received=str(head),
                    expected="Box, Discrete, MultiDiscrete or MultiBinary",
                    owner="maze-runtime",
                )
        self.choices = tuple(name for name, head in space.spaces.items() if isinstance(head, Choices))
        self.numbers = tuple(name for name in space.spaces if name not in self.choices)
        self.segments = tuple(n for name in self.choices for n in segments_of(space[name]))
        self.n_choices = sum(self.segments)
        # Plain values: compiled code reads no space objects.
        self._bits = {name for name in self.choices if isinstance(space[name], spaces.MultiBinary)}
        self._one_hots = {name: encoding_of(name, space[name]).torch for name in self.choices}
        scales = {name: _scale(space[name]) for name in self.numbers}
        self._scales = {
            name: DeviceConstants([torch.from_numpy(centre), torch.from_numpy(half)])
            for name, (centre, half) in scales.items()
        }
        self.size = self.n_choices + sum(len(centre) for centre, _ in scales.values())
        self.log_scale = float(sum(np.log(half.astype(np.float64)).sum() for _, half in scales.values()))

    @property
    def is_enumerable(self) -> bool:
        """Every head chooses: values of all choices can be written down."""
        return not self.numbers

    def encode(self, action: dict[str, Tensor]) -> Tensor:
        """(B, ...) tensors by head to (B, A) float32."""
        parts = [self._choice(name, action[name]) for name in self.choices]
        parts += [self._number(name, action[name]) for name in self.numbers]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _choice(self, name: str, action: Tensor) -> Tensor:
        if name in self._bits:
            bits = action.reshape(len(action), -1).float()
            return torch.stack((1.0 - bits, bits), dim=-1).flatten(1)
        encode = self._one_hots[name]
        assert encode is not None
        return encode(action)

    def _number(self, name: str, action: Tensor) -> Tensor:
        centre, half = self._scales[name].on(action.device)
        return (action.reshape(len(action), -1).float() - centre) / half


def _scale(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Centre and half width, (D,) each; 0 and 1 where a side is open or the width is 0."""
    assert isinstance(space, spaces.Box)
    bounds = bounds_of(space)
    return bounds.centre.reshape(-1).astype(np.float32), bounds.half_width.reshape(-1).astype(np.float32)
