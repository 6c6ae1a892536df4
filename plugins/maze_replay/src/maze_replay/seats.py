"""Which ring each member of a team has whose size changes."""

from __future__ import annotations

from collections import deque

import numpy as np


class Seats:
    """S seats an environment; that of environment i with number j is ring i · S + j.

    Whoever comes takes the seat that has been free the longest, so that all rings get about as many rows.

    Args:
        n_envs: N.
        n_seats: S.
    """

    def __init__(self, n_envs: int, n_seats: int) -> None:
        self._n_envs = n_envs
        self.reset(n_seats)

    def reset(self, n_seats: int) -> None:
        """So many seats, and nobody on them."""
        self.n_seats = n_seats
        self._taken: list[dict[int, int]] = [{} for _ in range(self._n_envs)]
        self._free = [deque(range(n_seats)) for _ in range(self._n_envs)]

    def take(self, env_index: np.ndarray, agent_id: np.ndarray) -> bool:
        """Seat those who have no seat; False: one of them found none."""
        for env, agent in zip(env_index.tolist(), agent_id.tolist(), strict=True):
            if agent not in self._taken[env]:
                if not self._free[env]:
                    return False
                self._taken[env][agent] = self._free[env].popleft()
        return True

    def rings(self, env_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
        """Of agents who have a seat, (n,) int64."""
        pairs = zip(env_index.tolist(), agent_id.tolist(), strict=True)
        return np.array([env * self.n_seats + self._taken[env][agent] for env, agent in pairs], np.int64)

    def holds(self, env_index: np.ndarray, agent_id: np.ndarray | None) -> np.ndarray:
        """(n,) bool: who has a seat."""
        assert agent_id is not None, "agents of a team have numbers"
        pairs = zip(env_index.tolist(), agent_id.tolist(), strict=True)
        return np.array([agent in self._taken[env] for env, agent in pairs], bool)

    def leave(self, env_index: np.ndarray, agent_id: np.ndarray) -> None:
        """Agents give up their seats."""
        for env, agent in zip(env_index.tolist(), agent_id.tolist(), strict=True):
            self._free[env].append(self._taken[env].pop(agent))

    def leave_all(self, env_index: np.ndarray) -> None:
        """Everybody in these environments does."""
        for env in env_index.tolist():
            self._free[env].extend(self._taken[env].values())
            self._taken[env].clear()

    def divide(self) -> None:
        """Twice as many: seat j becomes 2j, and 2j + 1 is free."""
        for env, taken in enumerate(self._taken):
            self._taken[env] = {agent: 2 * seat for agent, seat in taken.items()}
            self._free[env] = deque([2 * seat for seat in self._free[env]] + list(range(1, 2 * self.n_seats, 2)))
        self.n_seats *= 2
