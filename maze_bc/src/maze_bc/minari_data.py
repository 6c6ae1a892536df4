"""Minari datasets as demonstrations, in the spaces of the training environment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces

from maze_bc.data import OWNER, Decisions, Episode
from maze_kernel.env.contract import FLAT_KEY, StructuredSpaces
from maze_kernel.env.tick import ArrayDict
from maze_kernel.errors import SpaceError
from maze_kernel.trajectories.minari_source import MinariSource


class MinariEpisodes:
    """The episodes of a Minari dataset, read one at a time, in the spaces of a flat environment.

    Numbers are cast to the dtype of the environment's space, and Discrete actions are counted from its start.

    Args:
        source: the dataset.
        wanted: the spaces of the training environment, inside of its transforms.

    Raises:
        SpaceError: the environment is not flat, or names, kinds or shapes differ.
    """

    def __init__(self, source: MinariSource, wanted: StructuredSpaces) -> None:
        if not wanted.is_flat:
            raise SpaceError(
                "Minari datasets hold flat environments only",
                received=f"policy keys {', '.join(wanted.policy_keys)}",
                owner=OWNER,
                help='record the episodes with Maze: demonstrations = { path = "..." }',
            )
        self.spaces = wanted
        self._source = source
        self._key = wanted.policy_keys[0]
        self._theirs = {"observation": source.spaces.observation[FLAT_KEY], "action": source.spaces.action[FLAT_KEY]}
        self._ours = {"observation": wanted.observation[self._key], "action": wanted.action[self._key]}
        for what in self._ours:
            _require_same_form(what, self._theirs[what], self._ours[what])
        self.lengths: Sequence[int] = source.lengths

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode."""
        episode, n = self._source[index], self.lengths[index]
        observation = self._fitted("observation", episode.observation[FLAT_KEY])
        action = self._fitted("action", episode.action[FLAT_KEY])
        return {self._key: Decisions(observation, action, np.zeros(n, np.int64), np.arange(n))}

    def close(self) -> None:
        """Nothing is held open."""

    def _fitted(self, what: str, arrays: ArrayDict) -> ArrayDict:
        theirs, ours = self._theirs[what], self._ours[what]
        return {
            name: (arrays[name] + _shift(theirs[name], leaf)).astype(leaf.dtype, copy=False)
            for name, leaf in ours.spaces.items()
        }


def _shift(theirs: spaces.Space, ours: spaces.Space) -> np.ndarray:
    """From their first option to ours; 0 for what has none."""
    return np.asarray(getattr(ours, "start", 0)) - np.asarray(getattr(theirs, "start", 0))


def _require_same_form(what: str, theirs: spaces.Dict, ours: spaces.Dict) -> None:
    if set(theirs.spaces) != set(ours.spaces):
        raise SpaceError(
            f"the {what}s of the Minari dataset have other names than the environment's",
            received=", ".join(sorted(theirs.spaces)),
            expected=", ".join(sorted(ours.spaces)),
            owner=OWNER,
        )
    for name, leaf in ours.spaces.items():
        if theirs[name].shape != leaf.shape or type(theirs[name]) is not type(leaf):
            raise SpaceError(
                f"{name!r} of the Minari dataset does not fit the environment",
                received=str(theirs[name]),
                expected=str(leaf),
                owner=OWNER,
            )
