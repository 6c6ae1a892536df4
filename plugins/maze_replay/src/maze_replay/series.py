"""From ticks to transitions: each runs from an actor's decision to the same actor's next one. One policy key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from maze_kernel.contracts.vector import FinalObservation, Group
from maze_replay.replay import ReplayBuffer
from maze_replay.seats import Seats


class _Provisional(NamedTuple):
    """A stored transition that holds rewards of sub-steps `begin` to `end` of an unfinished flat step, discounted."""

    env: int
    begin: int
    end: int
    discount: float


class ActorSeries:
    """The decisions of all actors of one policy key that wait for their successor, in front of a replay buffer.

    In between lie other actors' decisions and any number of flat steps. Rewards add up, discounted by the flat steps
    since the decision: R = r_0 + γ_0 r_1 + γ_0 γ_1 r_2 + …, with γ_k = γ where decision k ends a flat step, else 1;
    the discount of what follows is the product of all γ_k. A flat environment is the case of one actor, who decides
    at every tick.

    Where the number of agents changes, whoever arrives takes a free ring of its environment, and leaves it behind when
    it is done. If there is none, all rings of the replay buffer are divided in two.

    Args:
        replay: with a ring an environment and agent; that of environment i and agent j is i · A + j. Where the number
            of agents changes, with N rings or as many as it was divided into.
        n_envs: N.
        n_agents: A; −1: it changes.
    """

    def __init__(self, replay: ReplayBuffer, n_envs: int, n_agents: int) -> None:
        self.replay = replay
        self._n_envs = n_envs
        self._seats = Seats(n_envs, replay.n_rings // n_envs) if n_agents < 0 else None
        # By ring and row: what overwrites a row is provisional itself, or is changed by nothing.
        self._provisional: dict[tuple[int, int], _Provisional] = {}
        self._make_room(n_agents if self._seats is None else self._seats.n_seats)

    def begin_episodes(self) -> None:
        """All environments are reset; decisions without a successor are forgotten."""
        if self._seats is not None:
            self._seats.reset(self.replay.n_rings // self._n_envs)
            self._make_room(self._seats.n_seats)
        self._open.fill(False)
        self._provisional.clear()
        self.replay.cut(self._all)

    def give_up(self, env_index: np.ndarray) -> None:
        """Episodes of these environments (m,) break off unseen; decisions without a successor are forgotten."""
        self.begin_flat_steps(env_index)
        given_up = np.zeros(len(self._open), bool)
        given_up[env_index] = True
        if self._seats is not None:
            self._seats.leave_all(env_index)
        rings = self._all[np.repeat(given_up, self._n_agents)]
        self._flat(self._open)[rings] = False
        self.replay.cut(rings)

    def arrive(self, group: Group, sub_step: np.ndarray) -> None:
        """Actors see their next observation: it completes their last decision, and the next one is made on it.

        Args:
            group: who sees what.
            sub_step: (N,) int64, how many decisions the present flat step has had.
        """
        self._take_seats(group)
        rings = self._rings(group.env_index, group.agent_id)
        waiting = rings[self._flat(self._open)[rings]]
        if len(waiting):
            self._complete(waiting, sub_step)
        self.replay.observe(rings, group.observation)

    def decide(
        self, group: Group, action: Mapping[str, np.ndarray], void: np.ndarray | None, sub_step: np.ndarray
    ) -> None:
        """Actors decide.

        Args:
            group: who.
            action: heads to (n, ...), rows as in the group.
            void: (N,) bool, environments whose next step only resets them, whatever the action; None: none.
            sub_step: as in `arrive`.
        """
        rings = self._rings(group.env_index, group.agent_id)
        if void is not None and void.any():
            kept = ~void[group.env_index]
            rings, action = rings[kept], {name: array[kept] for name, array in action.items()}
        self.replay.decide(rings, action)
        self._flat(self._open)[rings] = True
        self._flat(self._reward)[rings] = 0.0
        self._flat(self._discount)[rings] = 1.0
        self._flat(self._sub_step)[rings] = sub_step[rings // self._n_agents]

    def follow(self, action: Mapping[str, np.ndarray], reward: np.ndarray, gamma: float, group: Group) -> None:
        """`decide`, `pass_time` and `arrive` in one, for environments of one actor each, where no episode ends.

        Args:
            action: heads to (N, ...).
            reward: (N,).
            gamma: discount of the tick.
            group: what all of them see next, in their order.
        """
        self.replay.follow(action, reward, gamma, group.observation)

    def correct(self, env: int, changes: np.ndarray) -> None:
        """A flat step that ends now gives its sub-steps other rewards than those passed; before the last is passed.

        Args:
            env: index.
            changes: (m,) new minus old reward of each sub-step, the last one included.
        """
        until = np.concatenate([[0.0], changes.cumsum()])
        self._reward[env] += self._discount[env] * (until[-1] - until[self._sub_step[env]])
        for (ring, place), row in self._provisional.items():
            if row.env == env:
                self.replay.add_reward(ring, place, row.discount * (until[row.end] - until[row.begin]))

    def pass_time(self, reward: np.ndarray, gamma: np.ndarray | float) -> None:
        """A tick's rewards (N,) and discounts γ_k (N,), or one for all, reach every decision that waits."""
        self._reward += self._discount * reward[:, None]
        self._discount *= gamma if isinstance(gamma, float) else gamma[:, None]

    def begin_flat_steps(self, env_index: np.ndarray) -> None:
        """Decisions that still wait in these environments (n,) were made before the flat step that begins."""
        self._sub_step[env_index] = 0
        if self._provisional:
            begun = set(env_index.tolist())
            self._provisional = {at: row for at, row in self._provisional.items() if row.env not in begun}

    def leave(self, group: Group, actor_done: np.ndarray, sub_step: np.ndarray) -> None:
        """Those of a group's actors who are done, by environment (N,), end their series without a bootstrap."""
        left = actor_done[group.env_index]
        self.depart(group.env_index[left], group.agent_id[left], sub_step)

    def depart(self, env_index: np.ndarray, agent_id: np.ndarray, sub_step: np.ndarray) -> None:
        """Actors (n,) who are out, whoever decided, end their series without a bootstrap."""
        if self._seats is not None:  # who never decided has no ring
            seated = self._seats.holds(env_index, agent_id)
            env_index, agent_id = env_index[seated], agent_id[seated]
        self._terminate(self._rings(env_index, agent_id), sub_step)
        if self._seats is not None:
            self._seats.leave(env_index, agent_id)

    def end_episodes(self, terminated: np.ndarray, truncated: np.ndarray, final: FinalObservation | None) -> None:
        """Episodes ended, (N,) bool each; `final` has the last observations of actors of this key.

        Decisions of a terminated episode have no future. In a truncated one the actor who would decide next bootstraps
        from the final observation; the others never see another observation, so their last decisions are dropped.
        """
        self.begin_flat_steps(np.flatnonzero(terminated | truncated))
        self._terminate(self._all[np.repeat(terminated, self._n_agents)], None)
        cut = truncated & ~terminated
        if cut.any():
            if final is not None:
                self._truncate(final, cut)
            rest = np.repeat(cut, self._n_agents)
            self._flat(self._open)[rest] = False
            self.replay.cut(self._all[rest])
        if self._seats is not None:
            self._seats.leave_all(np.flatnonzero(terminated | truncated))

    def _truncate(self, final: FinalObservation, cut: np.ndarray) -> None:
        chosen = cut[final.env_index]
        if self._seats is not None:  # who never decided has no ring
            chosen &= self._seats.holds(final.env_index, final.agent_id)
        agent_id = None if final.agent_id is None else final.agent_id[chosen]
        rings = self._rings(final.env_index[chosen], agent_id)
        waits = self._flat(self._open)[rings]
        if waits.any():
            chosen[chosen] = waits
            self._complete(rings[waits], None)
            self.replay.observe(rings[waits], {name: array[chosen] for name, array in final.observation.items()})

    def _terminate(self, rings: np.ndarray, sub_step: np.ndarray | None) -> None:
        rings = rings[self._flat(self._open)[rings]]
        if len(rings):
            self._complete(rings, sub_step, has_future=False)

    def _complete(self, rings: np.ndarray, sub_step: np.ndarray | None, *, has_future: bool = True) -> None:
        """Store these decisions; without `sub_step` their episodes are over and no reward can change any more."""
        if sub_step is not None:
            self._note_provisional(rings, sub_step)
        discount = self._flat(self._discount)[rings]
        self.replay.store(rings, self._flat(self._reward)[rings], discount if has_future else np.zeros_like(discount))
        self._flat(self._open)[rings] = False

    def _note_provisional(self, rings: np.ndarray, sub_step: np.ndarray) -> None:
        """Rewards of the present flat step's sub-steps may still change when it ends; see `correct`."""
        if not np.count_nonzero(sub_step):
            return
        envs, begin = rings // self._n_agents, self._flat(self._sub_step)[rings]
        for i in np.flatnonzero(sub_step[envs] > begin):
            ring, env = int(rings[i]), int(envs[i])
            discount = float(self._flat(self._discount)[ring])
            row = self.replay.pending_row(ring)
            self._provisional[ring, row] = _Provisional(env, int(begin[i]), int(sub_step[env]), discount)

    def _make_room(self, n_agents: int) -> None:
        """Empty columns for so many actors of an environment."""
        shape = (self._n_envs, n_agents)
        self._n_agents = n_agents
        self._open = np.zeros(shape, bool)
        self._reward, self._discount = (np.zeros(shape, np.float64) for _ in range(2))
        self._sub_step = np.zeros(shape, np.int64)
        self._all = np.arange(self._n_envs * n_agents)

    def _take_seats(self, group: Group) -> None:
        """Give rings to those who have none."""
        if self._seats is None:
            return
        while not self._seats.take(group.env_index, group.agent_id):
            self._divide(self._seats)

    def _divide(self, seats: Seats) -> None:
        """Twice as many rings: those of each actor become the ones with even numbers."""
        moved = self.replay.divide()
        seats.divide()
        before = self._open, self._reward, self._discount, self._sub_step
        self._make_room(seats.n_seats)
        for column, own in zip((self._open, self._reward, self._discount, self._sub_step), before, strict=True):
            column[:, ::2] = own
        rows = ((moved(*at), row) for at, row in self._provisional.items())
        self._provisional = {at: row for at, row in rows if at is not None}

    def _rings(self, env_index: np.ndarray, agent_id: np.ndarray | None) -> np.ndarray:
        if self._seats is not None:
            assert agent_id is not None
            return self._seats.rings(env_index, agent_id)
        if self._n_agents == 1 or agent_id is None:
            return env_index
        rings: np.ndarray = env_index * self._n_agents + agent_id
        return rings

    @staticmethod
    def _flat(array: np.ndarray) -> np.ndarray:
        view: np.ndarray = array.reshape(-1)
        return view
