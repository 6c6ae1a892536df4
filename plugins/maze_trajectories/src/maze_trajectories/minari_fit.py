"""Minari datasets in the spaces of an environment: the dataset component "minari"."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import FLAT_KEY, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import SpaceError
from maze_runtime.datasets.contract import DatasetContext, Episode, EpisodeInfo
from maze_trajectories.minari_source import MinariSource
from maze_trajectories.options import MinariOptions

ROUNDING = 1e-5
"""An action of numbers may lie so far outside of a bound, relative to it where it is greater than 1."""


class FittedMinari:
    """The episodes of a Minari dataset, read one at a time, as a flat environment would have recorded them.

    Numbers are cast to the dtype of the environment's space, and Discrete actions are counted from its start.

    Args:
        source: the dataset.
        wanted: the spaces of the environment.

    Attributes:
        name: what messages call it.
        spaces: `wanted`.
        lengths: steps of each episode.

    Raises:
        SpaceError: the environment is not flat, or names, kinds, shapes or numbers of options differ, or floats would
            become integers.
    """

    def __init__(self, source: MinariSource, wanted: StructuredSpaces) -> None:
        if not wanted.is_flat:
            raise SpaceError(
                "Minari datasets hold flat environments only",
                received=f"policy keys {', '.join(wanted.policy_keys)}",
                help="record the episodes with Maze: maze rollout --record",
            )
        self.name = f"the Minari dataset {source.name}"
        self.spaces = wanted
        self._source = source
        self._key = wanted.policy_keys[0]
        self._theirs = {"observation": source.spaces.observation[FLAT_KEY], "action": source.spaces.action[FLAT_KEY]}
        self._ours = {"observation": wanted.observation[self._key], "action": wanted.action[self._key]}
        for what in self._ours:
            _require_same_form(what, self._theirs[what], self._ours[what])
        self.lengths: Sequence[int] = source.lengths

    def infos(self) -> Sequence[EpisodeInfo]:
        """Identifiers and sums of all episodes, which are read for them."""
        return [self._source[index].info for index in range(len(self._source))]

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode, read now and not kept.

        Raises:
            SpaceError: an action or an option is none of the environment's, or an integer does not fit its dtype.
        """
        episode = self._source[index]
        return attrs.evolve(
            episode,
            policy_keys=(self._key,),
            observation={self._key: self._fitted(index, "observation", episode.observation[FLAT_KEY])},
            action={self._key: self._fitted(index, "action", episode.action[FLAT_KEY])},
            final_key=self._key,
            final_observation=self._fitted(index, "observation", episode.final_observation),
        )

    def close(self) -> None:
        """Nothing is held open."""

    def _fitted(self, index: int, what: str, arrays: ArrayDict) -> ArrayDict:
        theirs, fitted = self._theirs[what], {}
        for name, leaf in self._ours[what].spaces.items():
            array, shift = arrays[name], _shift(theirs[name], leaf)
            if shift.any():
                array = array + shift
            low, high = _bounds(leaf, of_actions=what == "action")
            if bool(((array < low) | (array > high)).any()):
                raise SpaceError(
                    f"{what} {name!r} in episode {index} of {self.name} lies outside of the environment's space",
                    received=f"from {array.min()} to {array.max()}",
                    expected=str(leaf),
                    help="train in the environment that the dataset was made of",
                )
            fitted[name] = array.astype(leaf.dtype, copy=False)
        return fitted


def open_minari(context: DatasetContext, options: MinariOptions) -> FittedMinari:
    """Open what the options name, in the spaces of the environment.

    Raises:
        RequestError: Minari is not installed, or there is no such dataset on this machine.
        SpaceError: it does not fit the environment.
    """
    with closing(context.make_env()) as env:
        return FittedMinari(MinariSource(options.id, context.folder), env.structured_spaces)


def _shift(theirs: spaces.Space[Any], ours: spaces.Space[Any]) -> np.ndarray:
    """From their first option to ours; 0 for what has none."""
    shift: np.ndarray = np.asarray(getattr(ours, "start", 0)) - np.asarray(getattr(theirs, "start", 0))
    return shift


def _bounds(leaf: spaces.Space[Any], *, of_actions: bool) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest number there may be, in the shape of a leaf or of none; observations may leave their Box."""
    if isinstance(leaf, spaces.Box):
        if of_actions:
            low, high = leaf.low.astype(np.float64), leaf.high.astype(np.float64)
            return low - ROUNDING * np.maximum(1.0, abs(low)), high + ROUNDING * np.maximum(1.0, abs(high))
        if leaf.dtype.kind in "iu":
            return np.asarray(np.iinfo(leaf.dtype).min), np.asarray(np.iinfo(leaf.dtype).max)
        return np.asarray(-np.inf), np.asarray(np.inf)
    low = np.asarray(getattr(leaf, "start", 0))
    return low, low + _options(leaf) - 1


def _options(leaf: spaces.Space[Any]) -> np.ndarray:
    """How many there are to choose from, () or in the shape of a leaf; 1 of numbers."""
    if isinstance(leaf, spaces.MultiDiscrete):
        return leaf.nvec
    return np.asarray(2 if isinstance(leaf, spaces.MultiBinary) else getattr(leaf, "n", 1))


def _fits(theirs: spaces.Space[Any], ours: spaces.Space[Any]) -> bool:
    """Whether values of one space can become values of the other."""
    if theirs.shape != ours.shape or type(theirs) is not type(ours):
        return False
    becomes_whole = np.dtype(theirs.dtype).kind == "f" and np.dtype(ours.dtype).kind != "f"
    return not becomes_whole and np.array_equal(_options(theirs), _options(ours))


def _require_same_form(what: str, theirs: spaces.Dict, ours: spaces.Dict) -> None:
    if set(theirs.spaces) != set(ours.spaces):
        raise SpaceError(
            f"the {what}s of the Minari dataset have other names than the environment's",
            received=", ".join(sorted(theirs.spaces)),
            expected=", ".join(sorted(ours.spaces)),
        )
    for name, leaf in ours.spaces.items():
        if not _fits(theirs[name], leaf):
            raise SpaceError(
                f"{name!r} of the Minari dataset does not fit the environment",
                received=str(theirs[name]),
                expected=str(leaf),
                help="train in the environment that the dataset was made of",
            )
