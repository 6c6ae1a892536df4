"""Rounds of games that are one flat step from beginning to end (`StructuredSpaces.pays_differences`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from maze_kernel.contracts.env import ActorID, PolicyKey
from maze_kernel.contracts.vector import Group


class Rounds:
    """Tells where the rounds of one game end: with the decision after which somebody is asked again."""

    def __init__(self) -> None:
        self._decided: set[ActorID] = set()

    def begin(self) -> None:
        """A game begins."""
        self._decided.clear()

    def is_over(self, decided: ActorID, following: ActorID) -> bool:
        """Whether the round is, with a decision of `decided`, where `following` is asked next."""
        self._decided.add(decided)
        is_over = following in self._decided
        if is_over:
            self._decided.clear()
        return is_over


class RoundsOfBatch:
    """The same of N games that are stepped together."""

    def __init__(self, n_envs: int) -> None:
        self._rounds = [Rounds() for _ in range(n_envs)]

    def are_over(
        self, decided: Mapping[PolicyKey, Group], following: Mapping[PolicyKey, Group], ended: np.ndarray
    ) -> np.ndarray:
        """(N,) bool: where this decision was the last of its round, or of its game, which `ended` says."""
        over, following_by_env = ended.copy(), dict(_actors(following))
        for index, actor in _actors(decided):
            if ended[index]:
                self._rounds[index].begin()
            else:
                over[index] = self._rounds[index].is_over(actor, following_by_env[index])
        return over


def _actors(groups: Mapping[PolicyKey, Group]) -> list[tuple[int, ActorID]]:
    return [
        (index, ActorID(key, agent))
        for key, group in groups.items()
        for index, agent in zip(group.env_index.tolist(), group.agent_id.tolist(), strict=True)
    ]
