"""Where what is kept of each actor stands in arrays of environments and agents, however high agents are numbered."""

from __future__ import annotations

import numpy as np

_OF_NUMBERS = 16
"""Agents with smaller numbers than this have the column of their number, which costs nothing to find."""


class ActorColumns:
    """A column for each agent of an environment; agents with high numbers get those that follow, as they come.

    Arrays are then as wide as there were agents in an episode at most, not as the highest number.
    """

    def __init__(self) -> None:
        self._given: dict[int, dict[int, int]] = {}

    def of(self, env_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
        """(n,) columns of these agents (n,), in arrays (environments, agents, …); whoever is new gets one."""
        high = (agent_id >= _OF_NUMBERS).nonzero()[0]
        if not len(high):
            return agent_id
        columns = agent_id.copy()
        for row, env, agent in zip(high.tolist(), env_index[high].tolist(), agent_id[high].tolist(), strict=True):
            given = self._given.setdefault(env, {})
            columns[row] = given.setdefault(agent, _OF_NUMBERS + len(given))
        return columns

    def forget(self, env_index: np.ndarray | None = None) -> None:
        """Episodes begin in these environments, or in all: their columns are free."""
        for env in list(self._given) if env_index is None else env_index.tolist():
            self._given.pop(env, None)

    def to_array(self) -> np.ndarray:
        """(m, 3) int64: environment, agent and column of everybody with a high number."""
        rows = [(env, agent, column) for env, given in self._given.items() for agent, column in given.items()]
        return np.array(rows, np.int64).reshape(-1, 3)

    @classmethod
    def from_array(cls, rows: np.ndarray) -> ActorColumns:
        """What `to_array` wrote."""
        columns = cls()
        for env, agent, column in rows.tolist():
            columns._given.setdefault(env, {})[agent] = column
        return columns
