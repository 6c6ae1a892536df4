"""Replay that draws the transitions more often from which there was more to learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_replay.priorities import Priorities
from maze_replay.replay import ReplayBuffer
from maze_replay.transitions import Transitions

SMALLEST_ERROR = 1e-6
"""Is added to every error, so that a transition without one can still be drawn."""


@attrs.frozen
class WeightedTransitions:
    """Transitions, the rows (B,) they lie in, and importance weights (B,) float32 between 0 and 1."""

    transitions: Transitions
    rows: np.ndarray
    weights: np.ndarray


class PrioritizedReplayBuffer(ReplayBuffer):
    """P(i) = p_i / Σ p with p_i = (|δ_i| + ε)^α. Source: Schaul et al. 2016, equation 1 and algorithm 1.

    A new transition has the greatest priority there was so far, so each is drawn soon.

    Args:
        observation: space of the policy key.
        action: likewise.
        n_rings: environments times agents.
        size: rows of all rings together.
        alpha: 0: uniform; 1: in proportion to the error.
    """

    def __init__(
        self, observation: spaces.Dict, action: spaces.Dict, n_rings: int, size: int, *, alpha: float = 0.6
    ) -> None:
        super().__init__(observation, action, n_rings, size)
        self._alpha = alpha
        self._greatest = 1.0

    def add_episodes(self, ring: int, transitions: Transitions, ends: np.ndarray) -> None:
        """See `ReplayBuffer.add_episodes`."""
        start = int(self._cursor[ring])
        super().add_episodes(ring, transitions, ends)
        rows = ring * self.n_rows + np.arange(self.n_rows)
        priorities = self._priorities.array[rows]
        written = int(self._cursor[ring]) - start
        priorities[(start + np.arange(written % self.n_rows)) % self.n_rows] = self._greatest
        self._priorities.set(rows, np.where(self._memory.valid[ring], priorities, 0.0))

    def divide(self) -> Callable[[int, int], tuple[int, int] | None]:
        """See `ReplayBuffer.divide`; priorities go with their rows."""
        moved = super().divide()
        self._priorities.set_all(np.where(self._memory.valid, self._by_ring(), 0.0).reshape(-1))
        return moved

    def draw(self, size: int, rng: np.random.Generator, *, n_steps: int = 1, beta: float = 1.0) -> WeightedTransitions:
        """A batch by priority.

        Args:
            size: B.
            rng: draws.
            n_steps: see `ReplayBuffer.read`.
            beta: how far the weights w_i = (N P(i))^−β, divided by the greatest of the batch, take back that some
                transitions are drawn more often; 0: not at all, 1: wholly. Section 3.4.
        """
        rows = self._priorities.draw(size, rng)
        part = self._priorities.array[rows] / self._priorities.total
        weights = (self.n_transitions * part) ** -beta
        return WeightedTransitions(self.read(rows, n_steps=n_steps), rows, (weights / weights.max()).astype(np.float32))

    def set_errors(self, rows: np.ndarray, errors: np.ndarray) -> None:
        """Take note of the TD errors δ (B,) that an update found in the rows it had drawn."""
        values = (np.abs(errors).astype(np.float64) + SMALLEST_ERROR) ** self._alpha
        self._priorities.set(rows, np.where(self._memory.flat_valid[rows], values, 0.0))
        self._greatest = max(self._greatest, float(values.max()))

    def state_dict(self) -> dict[str, Any]:
        """Copies of the rows in use, priorities included."""
        return {**super().state_dict(), "greatest": self._greatest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `ReplayBuffer.load_state_dict`."""
        super().load_state_dict(state)
        self._priorities.set_all(np.where(self._memory.valid, self._by_ring(), 0.0).reshape(-1))
        self._greatest = float(state["greatest"])

    def _keep(self, rows: np.ndarray, reward: np.ndarray, discount: np.ndarray | float) -> None:
        super()._keep(rows, reward, discount)
        self._priorities.set(rows, self._greatest)

    def _forget(self, rows: np.ndarray) -> None:
        lost = rows[self._memory.flat_valid[rows]]
        super()._forget(rows)
        if len(lost):
            self._priorities.set(lost, 0.0)

    def _set_rings(self, n_rings: int, n_rows: int) -> None:
        super()._set_rings(n_rings, n_rows)
        self._priorities = Priorities(n_rings * n_rows)

    def _columns(self) -> ArrayDict:
        return {**super()._columns(), "priority": self._by_ring()}

    def _by_ring(self) -> np.ndarray:
        return self._priorities.array[: self.n_rings * self.n_rows].reshape(self.n_rings, self.n_rows)
