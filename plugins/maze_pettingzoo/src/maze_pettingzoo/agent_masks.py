"""Masks of an agent's discrete actions, in `info` or in its observation, as observation keys `<head>_mask`.

A mask in the observation that fits the agent's only discrete head is an observation like others, and not read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_gym.masks import MaskReader, head_sizes
from maze_kernel.contracts.env import Observation

MASK = "action_mask"


@attrs.frozen
class AgentMasks:
    """Reads the masks of one agent's game, or of a batch of them.

    Attributes:
        reader: takes masks of several heads, and lists with one a dimension, apart.
        in_info: they are in `info`, and otherwise in the observation.
        only: key and bits of the mask, where there is one; else a key that is none.
    """

    reader: MaskReader
    in_info: bool
    only: tuple[str, int]

    @property
    def spaces(self) -> dict[str, spaces.MultiBinary]:
        """The observation keys they become."""
        return self.reader.spaces

    def add_to(self, observation: Observation, raw: Any, info: Mapping[str, Any], lead: tuple[int, ...]) -> None:
        """Put them into an observation; all ones where `info` has none.

        Args:
            observation: in Maze's form.
            raw: in the game's form.
            info: what the game says beside it.
            lead: () of one game, (N,) of a batch.
        """
        mask = info.get(MASK) if self.in_info else raw[MASK]
        key, size = self.only
        if mask is None:
            observation.update(self.reader.all_allowed(lead))
        elif type(mask) is np.ndarray and mask.shape == (*lead, size):
            observation[key] = np.asarray(mask, np.int8)  # what `split` comes to
        else:
            observation.update(self.reader.split(mask, lead))


def masks_like(example: Any, action_space: spaces.Dict, in_info: bool) -> AgentMasks | None:
    """What reads masks of the form of an example; None where no head can be masked.

    Raises:
        EnvError: the example fits no head.
    """
    sizes = head_sizes(action_space)
    if not sizes:
        return None
    reader = MaskReader(sizes, None, example)
    only = reader.heads[0] if len(reader.heads) == len(sizes) == 1 else ""
    return AgentMasks(reader, in_info, (f"{only}_mask", sizes.get(only, -1)))


def split_observation(
    space: spaces.Space[Any], action_space: spaces.Dict
) -> tuple[spaces.Space[Any], spaces.Space[Any] | None]:
    """The observation space without a mask that has to be taken apart, and the space of that mask."""
    sizes = tuple(head_sizes(action_space).values())
    if not (isinstance(space, spaces.Dict) and MASK in space.spaces and sizes):
        return space, None
    mask = space[MASK]
    if mask.shape == sizes:  # the bits of an only head
        return space, None
    return spaces.Dict({key: child for key, child in space.spaces.items() if key != MASK}), mask
