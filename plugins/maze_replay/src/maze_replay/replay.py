"""Experience replay of one policy key: preallocated, every observation stored once.

Layout. Each actor of each environment has a ring of L rows; row p holds an observation, the action taken on it, the
reward until the actor's next decision and the discount of what comes after. The next observation is row p + 1:

    row          p          p + 1       p + 2        p + 3          p + 4
    observation  s_0        s_1         s_2 (final)  s_0 (new ep.)  s_1 (pending)
    valid        yes        yes         no           yes            no

A truncated episode adds one row that only holds its final observation; a terminated one needs none, for its discount
is 0. The row behind the newest transition is pending: it holds the observation of the next decision. Rows that are no
transition are not valid and never drawn. Where more actors come than there are rings, each ring is divided in two.

Stacks of the last n frames are kept as single frames (`maze_replay.frame_stacks`). The n - 1 transitions behind the
pending row have lost frames, and are not valid any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError
from maze_replay.division import divide_rings
from maze_replay.drawing import Only, RowDraws
from maze_replay.frame_stacks import n_older_of
from maze_replay.memory import RewardNow, RingMemory, write
from maze_replay.transitions import Transitions, rows_of_episodes

MIN_ROWS = 4
"""Rows a ring has at least: two transitions, a final and a pending observation."""


class ReplayBuffer:
    """Rings of transitions, one an actor; a ring is named by its index.

    Args:
        observation: space of the policy key.
        action: likewise.
        n_rings: environments times agents.
        size: rows of all rings together.

    Attributes:
        seen_now: how drawn transitions look by now, see `ScalesOfNow`; None: as they were stored.
        reward_now: what stored rewards (B,) come to by now; None: to what they were.
        older_reward: what rewards that older versions stored come to as they are stored today; None: to what they were.
    """

    def __init__(self, observation: spaces.Dict, action: spaces.Dict, n_rings: int, size: int) -> None:
        self.seen_now: Callable[[Transitions], Transitions] | None = None
        self.reward_now: RewardNow | None = None
        self.older_reward: RewardNow | None = None
        self._spaces = observation, action
        self._undivided = n_rings, max(MIN_ROWS + n_older_of(observation), -(-size // n_rings))
        self.n_transitions = 0
        self._set_rings(*self._undivided)
        self._cursor = np.zeros(n_rings, np.int64)
        self._filled = np.zeros(n_rings, np.int64)
        self._bootstraps = np.zeros(n_rings, bool)

    @property
    def n_spare_rows(self) -> int:
        """Rows of a ring that hold no transition once it is full: the pending one, and those that lost frames."""
        return 1 + self._memory.n_older

    @property
    def n_bytes(self) -> int:
        """What it takes once it is full."""
        return self._memory.n_bytes

    def observe(self, rings: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        """What the next decisions of these rings see, rows as in `rings` (n,)."""
        write(self._memory.flat_observation, self._pending(rings), observation)

    def decide(self, rings: np.ndarray, action: Mapping[str, np.ndarray]) -> None:
        """What was decided on it."""
        write(self._memory.flat_action, self._pending(rings), action)

    def store(self, rings: np.ndarray, reward: np.ndarray, discount: np.ndarray) -> None:
        """The decisions are transitions now; where the discount is not 0, what is observed next belongs to them."""
        self._keep(self._pending(rings), reward, discount)
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
        memory = self._memory
        before = memory.firsts + self._cursor
        self._cursor += 1
        if np.count_nonzero(self._cursor == self.n_rows):
            self._cursor[self._cursor == self.n_rows] = 0
        after = memory.firsts + self._cursor
        write(memory.flat_action, before, action)
        self._keep(before, reward, discount)
        self._bootstraps.fill(discount > 0.0)
        self._forget(memory.lost_with(after))
        np.minimum(self._filled + 1, self.n_rows, out=self._filled)
        write(memory.flat_observation, after, observation)

    def divide(self) -> Callable[[int, int], tuple[int, int] | None]:
        """Make two rings of each, half as long: ring r becomes 2r, with its newer rows, and 2r + 1, with the others.

        One transition is lost where the two parts met.

        Returns:
            Ring and row to ring and row: where it went; None: it was given up.

        Raises:
            RequestError: the rings would be too short.
        """
        half, fewest = self.n_rows // 2, MIN_ROWS + self._memory.n_older
        if half < fewest:
            raise RequestError(
                "the replay buffer is too small for a team of this size",
                received=f"{self.n_rows} rows for each of {self.n_rings} actors",
                expected=f"{fewest} rows an actor, where twice as many share them",
                owner="maze-replay",
                help="raise trainer.replay_buffer_size",
            )
        division = divide_rings(self._filled, self._cursor, self.n_rows)
        kept, columns, stacks = division.place >= 0, self._columns(), self._memory.stacks
        self._set_rings(2 * self.n_rings, half)
        for name, own in self._memory.stacks.items():
            own.moved_from(stacks[name], division.place.reshape(-1))
        for name, column in self._columns().items():
            column.reshape(-1, *column.shape[2:])[division.place[kept]] = columns[name][kept]
        self._bootstraps = np.stack([self._bootstraps, np.zeros_like(self._bootstraps)], axis=1).reshape(-1)
        self._filled = np.maximum(np.stack([division.newer, division.older], axis=1).reshape(-1) - 1, 0)
        self._cursor = self._filled.copy()
        self._count_anew()

        def moved(ring: int, row: int) -> tuple[int, int] | None:
            place = int(division.place[ring, row])
            return None if place < 0 else divmod(place, half)

        return moved

    def stored(self, ring: int) -> tuple[Transitions, np.ndarray]:
        """The transitions of a ring in order of time, and (n,) bool where series end, as `add_episodes` takes them."""
        memory = self._memory
        start = 0 if self._filled[ring] < self.n_rows else int(self._cursor[ring]) + 1
        rows = (start + np.arange(self.n_rows)) % self.n_rows
        rows = ring * self.n_rows + rows[memory.valid[ring, rows]]
        ends = (memory.flat_discount[rows] == 0.0) | ~memory.flat_valid[memory.following(rows)]
        return memory.transitions(rows), ends

    def like(self, n_rings: int, size: int) -> ReplayBuffer:
        """An empty one of the same spaces."""
        return ReplayBuffer(*self._spaces, n_rings, size)

    def pending_row(self, ring: int) -> int:
        """Where the next transition of a ring will be stored."""
        return int(self._cursor[ring])

    def add_reward(self, ring: int, row: int, reward: float) -> None:
        """Change the reward of a stored transition."""
        self._memory.reward[ring, row] += reward

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
        memory, start = self._memory, self._cursor[ring]
        if n_rows + self.n_spare_rows > self.n_rows:
            raise ValueError(f"{n_rows} rows do not fit into a ring of {self.n_rows}")
        where = (start + rows) % self.n_rows
        final = (where[cut] + 1) % self.n_rows
        first = ring * self.n_rows
        final_observation = {name: array[cut] for name, array in transitions.next_observation.items()}
        order = np.argsort(np.concatenate([rows, rows[cut] + 1]))
        memory.write_episodes(first + where, transitions.observation, first + final, final_observation, order)
        write(memory.flat_action, first + where, transitions.action)
        memory.reward[ring, where] = transitions.reward
        memory.discount[ring, where] = transitions.discount
        taken = (start + np.arange(n_rows + self.n_spare_rows)) % self.n_rows
        self.n_transitions += len(where) - int(np.count_nonzero(memory.valid[ring, taken]))
        memory.valid[ring, taken] = False
        memory.valid[ring, where] = True
        self._cursor[ring] = taken[n_rows]
        self._filled[ring] = min(self._filled[ring] + n_rows, self.n_rows)
        self._bootstraps[ring] = False

    def count(self, only: Only | None = None) -> int:
        """Transitions that can be drawn; of some of them in O(rows)."""
        if only is None:
            return self.n_transitions
        name, value = only
        return int(np.count_nonzero(self._memory.valid & (self._memory.observation[name] == value)))

    def _pending(self, rings: np.ndarray) -> np.ndarray:
        """Flat indices of the pending rows."""
        pending: np.ndarray = rings * self.n_rows + self._cursor[rings]
        return pending

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
        drawing = RowDraws(self._memory, self._cursor, self._filled, rng)
        rows = drawing.rows(size, only)
        if run_length > 1:
            rows = drawing.runs(rows, run_length)
        return self.read(rows, n_steps=n_steps)

    def read(self, rows: np.ndarray, *, n_steps: int = 1) -> Transitions:
        """The transitions of given rows.

        Args:
            rows: (B,) rings times `n_rows` plus positions, of valid rows.
            n_steps: decisions whose rewards are added up before the value of what follows; fewer where the episode ends
                or the newest decision is reached. R = r_0 + γ_0 r_1 + γ_0 γ_1 r_2 + …, and the discount is the product
                of all γ_k. Source: Sutton and Barto 2018, equation 7.1.
        """
        stored = self._memory.n_step_transitions(rows, n_steps, self.reward_now)
        return stored if self.seen_now is None else self.seen_now(stored)

    def _keep(self, rows: np.ndarray, reward: np.ndarray, discount: np.ndarray | float) -> None:
        """What lies at flat indices (n,), none of which is valid, are transitions now."""
        memory = self._memory
        memory.flat_reward[rows] = reward
        memory.flat_discount[rows] = discount
        memory.flat_valid[rows] = True
        self.n_transitions += len(rows)

    def _forget(self, rows: np.ndarray) -> None:
        """What lies at flat indices (n,) is no transition any more, if it was one."""
        n_lost = int(np.count_nonzero(self._memory.flat_valid.take(rows)))
        if n_lost:
            self.n_transitions -= n_lost
            self._memory.flat_valid[rows] = False

    def _advance(self, rings: np.ndarray) -> None:
        """The next row of these rings is pending; what it held is gone."""
        rows = (self._cursor[rings] + 1) % self.n_rows
        self._cursor[rings] = rows
        self._forget(self._memory.lost_with(rings * self.n_rows + rows))
        self._filled[rings] = np.minimum(self._filled[rings] + 1, self.n_rows)

    def state_dict(self) -> dict[str, Any]:
        """Copies of the rows in use."""
        depth = min(self.n_rows, int(self._filled.max()) + 1)
        columns = {name: array[:, :depth].copy() for name, array in self._columns().items()}
        stacks = {name: own.state_dict() for name, own in self._memory.stacks.items() if not own.is_whole}
        return {
            "columns": columns,
            "stacks": stacks,
            "scaled_when_drawn": self.seen_now is not None,
            "rewards_one_by_one": True,
            **{name: array.copy() for name, array in self._positions().items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned into a buffer of the same size, however often either was divided.

        Raises:
            RequestError: one holds transitions as running statistics scaled them then, the other as they were before.
        """
        self._require_scales(bool(state.get("scaled_when_drawn", False)))
        n_rings, n_rows = self._undivided
        n_stored = len(np.asarray(state["cursor"]))
        if n_stored != self.n_rings:
            self._set_rings(n_stored, n_rows // (n_stored // n_rings))
            self._cursor, self._filled = (np.zeros(n_stored, np.int64) for _ in range(2))
            self._bootstraps = np.zeros(n_stored, bool)
        for name, own in self._memory.stacks.items():
            own.load_state_dict(state.get("stacks", {}).get(name))
        for name, array in self._columns().items():
            stored = np.asarray(state["columns"][name])
            array[:, : stored.shape[1]] = stored
        self._memory.valid[:, np.asarray(state["columns"]["valid"]).shape[1] :] = False  # of what was played before
        for name, array in self._positions().items():
            array[...] = np.asarray(state[name])
        if self.older_reward is not None and "rewards_one_by_one" not in state:
            self._memory.flat_reward[:] = self.older_reward(self._memory.flat_reward)
        self._count_anew()

    def _require_scales(self, scaled_when_drawn: bool) -> None:
        if scaled_when_drawn != (self.seen_now is not None):
            kept = ("as wrappers with running statistics scaled them when they were stored", "unscaled")
            raise RequestError(
                "the replay buffer that was saved does not go with this run",
                received=f"transitions {kept[scaled_when_drawn]}",
                expected=f"transitions {kept[not scaled_when_drawn]}",
                owner="maze-replay",
                help="go on with the [vector] mode and the version of Maze that saved it, or start a new run with"
                ' initialize_from = "RUN" to go on from its weights',
            )

    def _count_anew(self) -> None:
        """What was moved here has no transition in pending rows, nor in those that need rows before these."""
        lost = self._cursor[:, None] + np.arange(self.n_spare_rows)
        self._memory.valid[np.arange(self.n_rings)[:, None], lost % self.n_rows] = False
        self.n_transitions = int(np.count_nonzero(self._memory.valid))

    def _columns(self) -> ArrayDict:
        return self._memory.columns()

    def _positions(self) -> ArrayDict:
        return {"cursor": self._cursor, "filled": self._filled, "bootstraps": self._bootstraps}

    def _set_rings(self, n_rings: int, n_rows: int) -> None:
        """An empty memory; positions are the caller's."""
        self.n_rings, self.n_rows = n_rings, n_rows
        self._memory = RingMemory(*self._spaces, n_rings, n_rows)
