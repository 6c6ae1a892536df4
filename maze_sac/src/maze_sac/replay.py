"""Experience replay of flat environments: preallocated, every observation stored once.

Layout. Each of N environments has a ring of L rows; row p holds an observation, the action taken on it, its reward and
whether it terminated the episode. The next observation is row p + 1 of the same ring:

    row          p          p + 1       p + 2        p + 3          p + 4
    observation  s_0        s_1         s_2 (final)  s_0 (new ep.)  s_1 (pending)
    valid        yes        yes         no           yes            no

A truncated episode adds one row that only holds its final observation; a terminated one needs none, for nothing
bootstraps from it. The row behind the newest transition is pending: it holds the observation of the next decision. Rows
that are no transition are not valid and never drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.env.contract import PolicyKey, StructuredSpaces
from maze_kernel.env.tick import ArrayDict
from maze_kernel.rollout.buffer import RolloutBuffer

MIN_ROWS = 4
"""Rows a ring has at least: two transitions, a final and a pending observation."""


@attrs.frozen
class Transitions:
    """A batch: observation, action and next observation dicts of (B, ...), reward (B,), terminated (B,) float32."""

    observation: ArrayDict
    action: ArrayDict
    reward: np.ndarray
    next_observation: ArrayDict
    terminated: np.ndarray


class ReplayBuffer:
    """Rings of transitions, one an environment.

    Args:
        structured_spaces: of flat environments.
        policy_key: their only one.
        n_envs: N.
        size: rows of all rings together.
    """

    def __init__(self, structured_spaces: StructuredSpaces, policy_key: PolicyKey, n_envs: int, size: int) -> None:
        self.n_envs = n_envs
        self.n_rows = max(MIN_ROWS, -(-size // n_envs))
        self._observation = self._allocate(structured_spaces.observation[policy_key])
        self._action = self._allocate(structured_spaces.action[policy_key])
        self._reward = np.zeros((n_envs, self.n_rows), np.float32)
        self._terminated = np.zeros((n_envs, self.n_rows), np.float32)
        self._valid = np.zeros((n_envs, self.n_rows), bool)
        self._cursor = np.zeros(n_envs, np.int64)
        self._filled = np.zeros(n_envs, np.int64)
        self._bootstraps = np.zeros(n_envs, bool)
        self._envs = np.arange(n_envs)

    @property
    def n_transitions(self) -> int:
        """Transitions that can be drawn."""
        return int(np.count_nonzero(self._valid))

    def begin_episodes(self) -> None:
        """All environments are reset: what comes next does not follow what was stored last.

        The pending observation stays where the newest transition needs it to bootstrap.
        """
        self._advance(self._envs[self._bootstraps])
        self._bootstraps.fill(False)

    def add(self, rollout: RolloutBuffer) -> int:
        """Store a rollout; returns how many transitions it held (void decisions are none)."""
        cut = {step: (index, rows) for step, index, rows in rollout.truncations}
        for t in range(rollout.n_steps):
            self._add_step(rollout, t)
            if t in cut:
                self._add_final(*cut[t])
        self._write(self._observation, self._envs, rollout.last_observation)
        return rollout.void.size - int(np.count_nonzero(rollout.void))

    def _add_step(self, rollout: RolloutBuffer, t: int) -> None:
        # The pending row is written once more: behind an episode's end it held no observation of the new one.
        self._write(self._observation, self._envs, {name: array[t] for name, array in rollout.observation.items()})
        envs = self._envs if not rollout.void[t].any() else np.flatnonzero(~rollout.void[t])
        self._write(self._action, envs, {name: array[t, envs] for name, array in rollout.action.items()})
        rows = self._cursor[envs]
        self._reward[envs, rows] = rollout.reward[t, envs]
        self._terminated[envs, rows] = rollout.terminated[t, envs]
        self._valid[envs, rows] = True
        ended = rollout.terminated[t] | rollout.truncated[t]
        self._bootstraps[envs] = ~ended[envs]
        self._advance(envs)

    def _add_final(self, envs: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        self._write(self._observation, envs, observation)
        self._advance(envs)

    def _advance(self, envs: np.ndarray) -> None:
        """The next row of these rings is pending; what it held is gone."""
        self._cursor[envs] = (self._cursor[envs] + 1) % self.n_rows
        self._valid[envs, self._cursor[envs]] = False
        self._filled[envs] = np.minimum(self._filled[envs] + 1, self.n_rows)

    def _write(self, columns: ArrayDict, envs: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        rows = self._cursor[envs]
        for name, column in columns.items():
            column[envs, rows] = values[name]

    def sample(self, size: int, rng: np.random.Generator) -> Transitions:
        """Draw transitions uniformly, with replacement, in O(size).

        Rows that are no transition are drawn again; they are few. At least one transition must be stored.
        """
        rows = self._draw(size, rng)
        env, position = np.divmod(rows, self.n_rows)
        following = env * self.n_rows + (position + 1) % self.n_rows
        return Transitions(
            observation=_take(self._observation, rows),
            action=_take(self._action, rows),
            reward=self._reward.reshape(-1).take(rows),
            next_observation=_take(self._observation, following),
            terminated=self._terminated.reshape(-1).take(rows),
        )

    def _draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """(size,) flat indices of valid rows."""
        depth, valid = int(self._filled.max()), self._valid.reshape(-1)
        rows = self._draw_any(size, depth, rng)
        while True:
            bad = np.flatnonzero(~valid[rows])
            if not len(bad):
                return rows
            rows[bad] = self._draw_any(len(bad), depth, rng)

    def _draw_any(self, size: int, depth: int, rng: np.random.Generator) -> np.ndarray:
        env, position = np.divmod(rng.integers(0, self.n_envs * depth, size=size), depth)
        rows: np.ndarray = env * self.n_rows + position
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Copies of the rows in use."""
        depth = min(self.n_rows, int(self._filled.max()) + 1)
        columns = {name: array[:, :depth].copy() for name, array in self._columns().items()}
        return {"columns": columns, **{name: array.copy() for name, array in self._positions().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned into a buffer of the same size."""
        for name, array in self._columns().items():
            stored = np.asarray(state["columns"][name])
            array[:, : stored.shape[1]] = stored
        for name, array in self._positions().items():
            array[...] = np.asarray(state[name])

    def _columns(self) -> ArrayDict:
        return {
            **{f"observation.{name}": array for name, array in self._observation.items()},
            **{f"action.{name}": array for name, array in self._action.items()},
            "reward": self._reward,
            "terminated": self._terminated,
            "valid": self._valid,
        }

    def _positions(self) -> ArrayDict:
        return {"cursor": self._cursor, "filled": self._filled, "bootstraps": self._bootstraps}

    def _allocate(self, space: spaces.Dict) -> ArrayDict:
        return {
            name: np.zeros((self.n_envs, self.n_rows, *(sub.shape or ())), sub.dtype) for name, sub in space.items()
        }


def _take(columns: ArrayDict, rows: np.ndarray) -> ArrayDict:
    return {name: array.reshape(-1, *array.shape[2:]).take(rows, axis=0) for name, array in columns.items()}
