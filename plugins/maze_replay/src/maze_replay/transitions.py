"""Transitions as arrays: what a replay buffer takes in and gives out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict


@attrs.frozen
class Transitions:
    """A batch: observation, action and next observation dicts of (B, ...), reward and discount (B,) float32.

    The discount is that of the next observation's value: gamma to the power of the flat steps in between, 0 where the
    episode terminated.
    """

    observation: ArrayDict
    action: ArrayDict
    reward: np.ndarray
    next_observation: ArrayDict
    discount: np.ndarray

    def columns(self) -> ArrayDict:
        """All arrays by a name, those of dicts by `field.name`."""
        columns: ArrayDict = {}
        for field, value in attrs.asdict(self, recurse=False).items():
            nested = isinstance(value, dict)
            columns |= {f"{field}.{name}": array for name, array in value.items()} if nested else {field: value}
        return columns

    def followed_by(self, other: Transitions) -> Transitions:
        """Both, one behind the other."""
        own, others = attrs.asdict(self, recurse=False), attrs.asdict(other, recurse=False)
        joined: dict[str, Any] = {
            field: {name: np.concatenate([array, others[field][name]]) for name, array in value.items()}
            if isinstance(value, dict)
            else np.concatenate([value, others[field]])
            for field, value in own.items()
        }
        return Transitions(**joined)


def rows_of_episodes(transitions: Transitions, ends: np.ndarray) -> int:
    """Rows that `ReplayBuffer.add_episodes` fills: one a transition, one more a truncated episode."""
    return len(ends) + int(np.count_nonzero(ends & (transitions.discount > 0.0)))


def columns_by_key(transitions: Mapping[PolicyKey, Transitions]) -> ArrayDict:
    """The arrays of transitions by name, for a report; of several policy keys by `key.name`."""
    return {
        f"{key}.{name}" if len(transitions) > 1 else name: array
        for key, own in transitions.items()
        for name, array in own.columns().items()
    }
