"""Experience replay of one policy key: preallocated, every observation stored once.

Layout. Each actor of each environment has a ring of L rows; row p holds an observation, the action taken on it, the
reward until the actor's next decision and the discount of what comes after. The next observation is row p + 1:

    row          p          p + 1       p + 2        p + 3          p + 4
    observation  s_0        s_1         s_2 (final)  s_0 (new ep.)  s_1 (pending)
    valid        yes        yes         no           yes            no

A truncated episode adds one row that only holds its final observation; a terminated one needs none, for its discount
is 0. The row behind the newest transition is pending: it holds the observation of the next decision. Rows that are no
transition are not valid and never drawn. Where more actors come than there are rings, each ring is divided in two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError
from maze_replay.division import divide_rings
from maze_replay.transitions import Transitions, rows_of_episodes

Only = tuple[str, int]
"""An observation of one number, and the value it has in the transitions that are wanted."""

MIN_ROWS = 4
"""Rows a ring has at least: two transitions, a final and a pending observation."""


class ReplayBuffer:
    """Rings of transitions, one an actor; a ring is named by its index.

    Args:
        observation: space of the policy key.
        action: likewise.
        n_rings: environments times agents.
        size: rows of all rings together.
    """

    def __init__(self, observation: spaces.Dict, action: spaces.Dict, n_rings: int, size: int) -> None:
        self._spaces = observation, action
        self._undivided = n_rings, max(MIN_ROWS, -(-size // n_rings))
        self.n_transitions = 0
        self._set_rings(*self._undivided)
        self._cursor = np.zeros(n_rings, np.int64)
        self._filled = np.zeros(n_rings, np.int64)
        self._bootstraps = np.zeros(n_rings, bool)

    def observe(self, rings: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        """What the next decisions of these rings see, rows as in `rings` (n,)."""
        _write(self._observation, rings, self._cursor[rings], observation)

    def decide(self, rings: np.ndarray, action: Mapping[str, np.ndarray]) -> None:
        """What was decided on it."""
        _write(self._action, rings, self._cursor[rings], action)

    def store(self, rings: np.ndarray, reward: np.ndarray, discount: np.ndarray) -> None:
        """The decisions are transitions now; where the discount is not 0, what is observed next belongs to them."""
        self._keep(rings * self.n_rows + self._cursor[rings], reward, discount)
        self._bootstraps[rings] = discount > 0.0
        self._advance(rings)

    def follow(
        self,
        action: Mapping[str, np.ndarray],
        reward: np.ndarray,
        discount: float,
        observation: Mapping[str, np.ndarray],
    ) -> None:
        """`decide`, `store` and `observe` of every ring at once, rows in their order; no episode ends here."""
        before = self._firsts + self._cursor
        self._cursor += 1
        if np.count_nonzero(self._cursor == self.n_rows):
            self._cursor[self._cursor == self.n_rows] = 0
        after = self._firsts + self._cursor
        for name, column in self._flat_action.items():
            column[before] = action[name]
        self._keep(before, reward, discount)
        self._bootstraps.fill(discount > 0.0)
        self._forget(after)
        np.minimum(self._filled + 1, self.n_rows, out=self._filled)
        for name, column in self._flat_observation.items():
            column[after] = observation[name]

    def divide(self) -> Callable[[int, int], tuple[int, int] | None]:
        """Make two rings of each, half as long: ring r becomes 2r, with its newer rows, and 2r + 1, with the others.

        One transition is lost where the two parts met.

        Returns:
            Ring and row to ring and row: where it went; None: it was given up.

        Raises:
            RequestError: the rings would be too short.
        """
        half = self.n_rows // 2
        if half < MIN_ROWS:
            raise RequestError(
                "the replay buffer is too small for a team of this size",
                received=f"{self.n_rows} rows for each of {self.n_rings} actors",
                expected=f"{MIN_ROWS} rows an actor, where twice as many share them",
                owner="maze-replay",
                help="raise trainer.replay_buffer_size",
            )
        division = divide_rings(self._filled, self._cursor, self.n_rows)
        kept, columns = division.place >= 0, self._columns()
        self._set_rings(2 * self.n_rings, half)
        for name, column in self._columns().items():
            column.reshape(-1, *column.shape[2:])[division.place[kept]] = columns[name][kept]
        self._bootstraps = np.stack([self._bootstraps, np.zeros_like(self._bootstraps)], axis=1).reshape(-1)
        self._filled = np.maximum(np.stack([division.newer, division.older], axis=1).reshape(-1) - 1, 0)
        self._cursor = self._filled.copy()
        self._valid[np.arange(self.n_rings), self._cursor] = False
        self.n_transitions = int(np.count_nonzero(self._valid))

        def moved(ring: int, row: int) -> tuple[int, int] | None:
            place = int(division.place[ring, row])
            return None if place < 0 else divmod(place, half)

        return moved

    def stored(self, ring: int) -> tuple[Transitions, np.ndarray]:
        """The transitions of a ring in order of time, and (n,) bool where series end, as `add_episodes` takes them."""
        start = 0 if self._filled[ring] < self.n_rows else int(self._cursor[ring]) + 1
        rows = (start + np.arange(self.n_rows)) % self.n_rows
        rows = ring * self.n_rows + rows[self._valid[ring, rows]]
        ends = (self._flat_discount[rows] == 0.0) | ~self._flat_valid[self._following(rows)]
        return self._transitions(rows, rows, self._flat_reward[rows], self._flat_discount[rows]), ends

    def like(self, n_rings: int, size: int) -> ReplayBuffer:
        """An empty one of the same spaces."""
        return ReplayBuffer(*self._spaces, n_rings, size)

    def pending_row(self, ring: int) -> int:
        """Where the next transition of a ring will be stored."""
        return int(self._cursor[ring])

    def add_reward(self, ring: int, row: int, reward: float) -> None:
        """Change the reward of a stored transition."""
        self._reward[ring, row] += reward

    def cut(self, rings: np.ndarray) -> None:
        """What comes next does not follow what was stored last.

        The pending observation stays where the newest transition needs it to bootstrap.
        """
        rings = rings[self._bootstraps[rings]]
        self._advance(rings)
        self._bootstraps[rings] = False

    def add_episodes(self, ring: int, transitions: Transitions, ends: np.ndarray) -> None:
        """Store whole episodes at once.

        Args:
            ring: an index.
            transitions: in order of time; the next observation of each is the observation of the one behind it.
            ends: (n,) bool, the last transition of each episode.

        Raises:
            ValueError: the ring is shorter than the episodes.
        """
        cut = ends & (transitions.discount > 0.0)
        # One row a transition, and one behind each cut episode for its final observation.
        rows = np.arange(len(ends)) + np.concatenate([[0], np.cumsum(cut)[:-1]]).astype(np.int64)
        n_rows = rows_of_episodes(transitions, ends)
        if n_rows >= self.n_rows:
            raise ValueError(f"{n_rows} rows do not fit into a ring of {self.n_rows}")
        start = self._cursor[ring]
        where = (start + rows) % self.n_rows
        at = np.full(len(where), ring)
        final = (where[cut] + 1) % self.n_rows
        _write(self._observation, at, where, transitions.observation)
        _write(self._observation, at[cut], final, {k: v[cut] for k, v in transitions.next_observation.items()})
        _write(self._action, at, where, transitions.action)
        self._reward[ring, where] = transitions.reward
        self._discount[ring, where] = transitions.discount
        taken = (start + np.arange(n_rows + 1)) % self.n_rows
        self.n_transitions += len(where) - int(np.count_nonzero(self._valid[ring, taken]))
        self._valid[ring, taken] = False
        self._valid[ring, where] = True
        self._cursor[ring] = taken[-1]
        self._filled[ring] = min(self._filled[ring] + n_rows, self.n_rows)
        self._bootstraps[ring] = False

    def count(self, only: Only | None = None) -> int:
        """Transitions that can be drawn; of some of them in O(rows)."""
        if only is None:
            return self.n_transitions
        name, value = only
        return int(np.count_nonzero(self._valid & (self._observation[name] == value)))

    def sample(
        self, size: int, rng: np.random.Generator, *, n_steps: int = 1, only: Only | None = None, run_length: int = 1
    ) -> Transitions:
        """Draw transitions uniformly, with replacement, in O(size · n_steps).

        Rows that are no transition are drawn again; they are few. At least one transition must be stored.

        Args:
            size: B.
            rng: draws.
            n_steps: see `read`.
            only: draw the transitions alone whose observation has this value; there must be one.
            run_length: draw runs of so many transitions that an actor made one after the other, across the ends of
                episodes; B · `run_length` rows, run by run. Where the newest is reached a run goes on at another one.
        """
        rows = self._draw(size, rng, only)
        if run_length > 1:
            rows = self._runs(rows, run_length, rng)
        return self.read(rows, n_steps=n_steps)

    def read(self, rows: np.ndarray, *, n_steps: int = 1) -> Transitions:
        """The transitions of given rows.

        Args:
            rows: (B,) rings times `n_rows` plus positions, of valid rows.
            n_steps: decisions whose rewards are added up before the value of what follows; fewer where the episode ends
                or the newest decision is reached. R = r_0 + γ_0 r_1 + γ_0 γ_1 r_2 + …, and the discount is the product
                of all γ_k. Source: Sutton and Barto 2018, equation 7.1.
        """
        rewards, discounts, valid = self._flat_reward, self._flat_discount, self._flat_valid
        reward, discount = rewards.take(rows), discounts.take(rows)
        last = rows
        for _ in range(n_steps - 1):
            following = self._following(last)
            # A valid row behind a transition that bootstraps is what followed it; all others end the sum.
            goes_on = (discount > 0.0) & valid.take(following)
            reward = np.where(goes_on, reward + discount * rewards.take(following), reward)
            discount = np.where(goes_on, discount * discounts.take(following), discount)
            last = np.where(goes_on, following, last)
        return self._transitions(rows, last, reward, discount)

    def _transitions(self, rows: np.ndarray, last: np.ndarray, reward: np.ndarray, discount: np.ndarray) -> Transitions:
        """Decisions at flat indices (B,), each followed by what is behind `last` (B,)."""
        return Transitions(
            observation=_take(self._flat_observation, rows),
            action=_take(self._flat_action, rows),
            reward=reward,
            next_observation=_take(self._flat_observation, self._following(last)),
            discount=discount,
        )

    def _runs(self, rows: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
        """(B · length,) flat indices of what was stored behind each row (B,)."""
        valid, runs = self._flat_valid, [rows]
        pending = np.arange(self.n_rings) * self.n_rows + self._cursor
        for _ in range(length - 1):
            following = self._following(rows)
            ends = following == pending[following // self.n_rows]
            # Between the transitions of two episodes lies a final observation, if the first was cut.
            following = np.where(valid[following], following, self._following(following))
            lost = np.flatnonzero(ends | ~valid[following])
            following[lost] = self._draw(len(lost), rng) if len(lost) else following[lost]
            rows = following
            runs.append(rows)
        return np.stack(runs, axis=1).reshape(-1)

    def _following(self, rows: np.ndarray) -> np.ndarray:
        """Flat indices of the rows behind these, in the same rings."""
        following: np.ndarray = rows + 1
        following[following % self.n_rows == 0] -= self.n_rows
        return following

    def _keep(self, rows: np.ndarray, reward: np.ndarray, discount: np.ndarray | float) -> None:
        """What lies at flat indices (n,), none of which is valid, are transitions now."""
        self._flat_reward[rows] = reward
        self._flat_discount[rows] = discount
        self._flat_valid[rows] = True
        self.n_transitions += len(rows)

    def _forget(self, rows: np.ndarray) -> None:
        """What lies at flat indices (n,) is no transition any more, if it was one."""
        n_lost = int(np.count_nonzero(self._flat_valid.take(rows)))
        if n_lost:
            self.n_transitions -= n_lost
            self._flat_valid[rows] = False

    def _advance(self, rings: np.ndarray) -> None:
        """The next row of these rings is pending; what it held is gone."""
        rows = (self._cursor[rings] + 1) % self.n_rows
        self._cursor[rings] = rows
        self._forget(rings * self.n_rows + rows)
        self._filled[rings] = np.minimum(self._filled[rings] + 1, self.n_rows)

    def _draw(self, size: int, rng: np.random.Generator, only: Only | None = None) -> np.ndarray:
        """(size,) flat indices of valid rows."""
        depth = int(self._filled.max())
        rows = self._draw_any(size, depth, rng)
        while True:
            wanted = self._flat_valid.take(rows)
            if only is not None:
                wanted &= self._flat_observation[only[0]].reshape(-1).take(rows) == only[1]
            bad = np.flatnonzero(~wanted)
            if not len(bad):
                return rows
            rows[bad] = self._draw_any(len(bad), depth, rng)

    def _draw_any(self, size: int, depth: int, rng: np.random.Generator) -> np.ndarray:
        drawn = rng.integers(0, self.n_rings * depth, size=size)
        if self.n_rings == 1 or depth == self.n_rows:
            return drawn
        ring, position = np.divmod(drawn, depth)
        rows: np.ndarray = ring * self.n_rows + position
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Copies of the rows in use."""
        depth = min(self.n_rows, int(self._filled.max()) + 1)
        columns = {name: array[:, :depth].copy() for name, array in self._columns().items()}
        return {"columns": columns, **{name: array.copy() for name, array in self._positions().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned into a buffer of the same size, however often either was divided."""
        n_rings, n_rows = self._undivided
        n_stored = len(np.asarray(state["cursor"]))
        if n_stored != self.n_rings:
            self._set_rings(n_stored, n_rows // (n_stored // n_rings))
            self._cursor, self._filled = (np.zeros(n_stored, np.int64) for _ in range(2))
            self._bootstraps = np.zeros(n_stored, bool)
        for name, array in self._columns().items():
            stored = np.asarray(state["columns"][name])
            array[:, : stored.shape[1]] = stored
        self._valid[:, np.asarray(state["columns"]["valid"]).shape[1] :] = False  # of what was played before
        for name, array in self._positions().items():
            array[...] = np.asarray(state[name])
        self.n_transitions = int(np.count_nonzero(self._valid))

    def _columns(self) -> ArrayDict:
        return {
            **{f"observation.{name}": array for name, array in self._observation.items()},
            **{f"action.{name}": array for name, array in self._action.items()},
            "reward": self._reward,
            "discount": self._discount,
            "valid": self._valid,
        }

    def _positions(self) -> ArrayDict:
        return {"cursor": self._cursor, "filled": self._filled, "bootstraps": self._bootstraps}

    def _set_rings(self, n_rings: int, n_rows: int) -> None:
        """Empty columns; positions are the caller's."""
        self.n_rings, self.n_rows = n_rings, n_rows
        self._observation, self._action = (self._allocate(space) for space in self._spaces)
        self._reward, self._discount = (np.zeros((n_rings, n_rows), np.float32) for _ in range(2))
        self._valid = np.zeros((n_rings, n_rows), bool)
        # Views by flat index, ring times `n_rows` plus position: one index is read much faster than two.
        self._firsts = np.arange(n_rings) * n_rows
        self._flat_observation, self._flat_action = (
            {name: array.reshape(-1, *array.shape[2:]) for name, array in columns.items()}
            for columns in (self._observation, self._action)
        )
        self._flat_reward, self._flat_discount = self._reward.reshape(-1), self._discount.reshape(-1)
        self._flat_valid = self._valid.reshape(-1)

    def _allocate(self, space: spaces.Dict) -> ArrayDict:
        return {
            name: np.zeros((self.n_rings, self.n_rows, *(sub.shape or ())), sub.dtype) for name, sub in space.items()
        }


def _write(columns: ArrayDict, rings: np.ndarray, rows: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    for name, column in columns.items():
        column[rings, rows] = values[name]


def _take(columns: ArrayDict, rows: np.ndarray) -> ArrayDict:
    """Of columns by flat index."""
    return {name: column.take(rows, axis=0) for name, column in columns.items()}
