"""What the rings of a replay buffer hold: preallocated columns, read by one index.

Which row of a ring is written next is the buffer's matter, which ones are drawn is that of `drawing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import ArrayDict
from maze_replay.frame_stacks import FrameStacks, may_be_stacked, n_older_of
from maze_replay.transitions import Transitions
from maze_runtime.env.batching import allocate

Columns = dict[str, np.ndarray | FrameStacks]
RewardNow = Callable[[np.ndarray], np.ndarray]


class RingMemory:
    """R rings of L rows, all empty at first. A row's flat index is its ring times L plus its position in the ring.

    Args:
        observation: space of the policy key.
        action: likewise.
        n_rings, n_rows: R and L.

    Attributes:
        observation, action: name to (R, L, …); stacks of frames, which are no arrays, are left out.
        stacks: those, by name.
        n_older: of them all; a transition needs so many rows before it.
        reward, discount: (R, L) float32.
        valid: (R, L) bool, the rows that are transitions.
        flat_observation, flat_action, flat_reward, flat_discount, flat_valid: views of these by flat index, (R·L, …).
            One index is read much faster than two.
        firsts: (R,) flat index of the first row of each ring.
    """

    def __init__(self, observation: spaces.Dict, action: spaces.Dict, n_rings: int, n_rows: int) -> None:
        shape = n_rings, n_rows
        self.n_rings, self.n_rows = shape
        self.stacks = {name: FrameStacks(own, *shape) for name, own in observation.items() if may_be_stacked(own)}
        self.n_older = n_older_of(observation)
        plain = spaces.Dict({name: own for name, own in observation.items() if name not in self.stacks})
        self.observation, self.action = allocate(plain, *shape), allocate(action, *shape)
        self.reward, self.discount = (np.zeros(shape, np.float32) for _ in range(2))
        self.valid = np.zeros(shape, bool)
        self.firsts = np.arange(n_rings) * n_rows
        known: Columns = {**_flat(self.observation), **self.stacks}
        self.flat_observation: Columns = {name: known[name] for name in observation}
        self.flat_action = _flat(self.action)
        self.flat_reward, self.flat_discount = self.reward.reshape(-1), self.discount.reshape(-1)
        self.flat_valid = self.valid.reshape(-1)

    @property
    def n_bytes(self) -> int:
        """What it takes once every row was written."""
        return sum(array.nbytes for array in self.columns().values())

    def columns(self) -> ArrayDict:
        """All columns by a name, those of dicts by `field.name`."""
        return {
            **{f"observation.{name}": array for name, array in self.observation.items()},
            **{
                f"observation.{name}{part}": a for name, own in self.stacks.items() for part, a in own.columns().items()
            },
            **{f"action.{name}": array for name, array in self.action.items()},
            "reward": self.reward,
            "discount": self.discount,
            "valid": self.valid,
        }

    def write_episodes(
        self,
        rows: np.ndarray,
        observation: Mapping[str, np.ndarray],
        final_rows: np.ndarray,
        final_observation: Mapping[str, np.ndarray],
        order: np.ndarray,
    ) -> None:
        """Put observations (n, …) at flat indices (n,) of one ring, and final ones (m, …) at theirs.

        Args:
            order: (n + m,) of both, one behind the other, in time.
        """
        for name, column in self.flat_observation.items():
            own, final = observation[name], final_observation[name]
            if isinstance(column, FrameStacks):
                together, n = np.concatenate([rows, final_rows]), len(rows)
                for place in order.tolist():
                    column[together[[place]]] = own[[place]] if place < n else final[[place - n]]
            else:
                column[rows], column[final_rows] = own, final

    def lost_with(self, rows: np.ndarray) -> np.ndarray:
        """Flat indices of the newest rows that are lost where these, the next ones to be written, are.

        Those in between were lost with the ones before.
        """
        if not self.n_older:
            return rows
        lost: np.ndarray = rows + self.n_older
        return np.where(lost // self.n_rows > rows // self.n_rows, lost - self.n_rows, lost)

    def following(self, rows: np.ndarray) -> np.ndarray:
        """Flat indices of the rows behind these, in the same rings."""
        following: np.ndarray = rows + 1
        following[following % self.n_rows == 0] -= self.n_rows
        return following

    def transitions(self, rows: np.ndarray) -> Transitions:
        """What was stored in rows, by flat index (B,)."""
        return self._from(rows, rows, self.flat_reward[rows], self.flat_discount[rows])

    def n_step_transitions(self, rows: np.ndarray, n_steps: int, reward_now: RewardNow | None) -> Transitions:
        """See `ReplayBuffer.read`: R = r_0 + γ_0 r_1 + γ_0 γ_1 r_2 + …, and the discount is the product of all γ_k."""
        rewards, discounts, valid = self.flat_reward, self.flat_discount, self.flat_valid
        reward, discount = rewards.take(rows), discounts.take(rows)
        if reward_now is not None:
            reward = reward_now(reward)
        last = rows
        for _ in range(n_steps - 1):
            following = self.following(last)
            # A valid row behind a transition that bootstraps is what followed it; all others end the sum.
            goes_on = (discount > 0.0) & valid.take(following)
            more = rewards.take(following)
            if reward_now is not None:
                more = reward_now(more)
            reward = np.where(goes_on, reward + discount * more, reward)
            discount = np.where(goes_on, discount * discounts.take(following), discount)
            last = np.where(goes_on, following, last)
        return self._from(rows, last, reward, discount)

    def _from(self, rows: np.ndarray, last: np.ndarray, reward: np.ndarray, discount: np.ndarray) -> Transitions:
        """Decisions at flat indices (B,), each followed by what is behind `last` (B,)."""
        return Transitions(
            observation=_take(self.flat_observation, rows),
            action=_take(self.flat_action, rows),
            reward=reward,
            next_observation=_take(self.flat_observation, self.following(last)),
            discount=discount,
        )


def write(columns: Columns | ArrayDict, rows: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    """Put values (n, …) at flat indices (n,)."""
    for name, column in columns.items():
        column[rows] = values[name]


def _flat(columns: ArrayDict) -> ArrayDict:
    return {name: array.reshape(-1, *array.shape[2:]) for name, array in columns.items()}


def _take(columns: Columns | ArrayDict, rows: np.ndarray) -> ArrayDict:
    """Of columns by flat index."""
    return {name: column.take(rows, axis=0) for name, column in columns.items()}
