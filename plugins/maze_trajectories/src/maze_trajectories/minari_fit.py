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
        SpaceError: the environment is not flat, or names, kinds or shapes differ.
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
        """One episode, read now and not kept."""
        episode = self._source[index]
        return attrs.evolve(
            episode,
            policy_keys=(self._key,),
            observation={self._key: self._fitted("observation", episode.observation[FLAT_KEY])},
            action={self._key: self._fitted("action", episode.action[FLAT_KEY])},
            final_key=self._key,
            final_observation=self._fitted("observation", episode.final_observation),
        )

    def close(self) -> None:
        """Nothing is held open."""

    def _fitted(self, what: str, arrays: ArrayDict) -> ArrayDict:
        theirs, ours = self._theirs[what], self._ours[what]
        return {
            name: (arrays[name] + _shift(theirs[name], leaf)).astype(leaf.dtype, copy=False)
            for name, leaf in ours.spaces.items()
        }


def open_minari(context: DatasetContext, options: MinariOptions) -> FittedMinari:
    """Open what the options name, in the spaces of the environment.

    Raises:
        RequestError: Minari is not installed, or there is no such dataset on this machine.
        SpaceError: it does not fit the environment.
    """
    with closing(context.make_env()) as env:
        return FittedMinari(MinariSource(options.id), env.structured_spaces)


def _shift(theirs: spaces.Space[Any], ours: spaces.Space[Any]) -> np.ndarray:
    """From their first option to ours; 0 for what has none."""
    shift: np.ndarray = np.asarray(getattr(ours, "start", 0)) - np.asarray(getattr(theirs, "start", 0))
    return shift


def _require_same_form(what: str, theirs: spaces.Dict, ours: spaces.Dict) -> None:
    if set(theirs.spaces) != set(ours.spaces):
        raise SpaceError(
            f"the {what}s of the Minari dataset have other names than the environment's",
            received=", ".join(sorted(theirs.spaces)),
            expected=", ".join(sorted(ours.spaces)),
        )
    for name, leaf in ours.spaces.items():
        if theirs[name].shape != leaf.shape or type(theirs[name]) is not type(leaf):
            raise SpaceError(
                f"{name!r} of the Minari dataset does not fit the environment",
                received=str(theirs[name]),
                expected=str(leaf),
            )
