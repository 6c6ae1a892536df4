"""Preallocated storage of one rollout of structured environments: dense (T, N) fields and a table a policy key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.errors import EnvError
from maze_runtime.env.batching import allocate


class Finals(NamedTuple):
    """Final observations of episodes that were cut at one step, of one policy key: rows match an env index (m,)."""

    policy_key: PolicyKey
    agent_id: np.ndarray
    observation: ArrayDict

    def select(self, chosen: np.ndarray) -> Finals:
        """The rows of a mask (m,), copied."""
        rows = {name: array[chosen] for name, array in self.observation.items()}
        return Finals(self.policy_key, self.agent_id[chosen], rows)


class Departure(NamedTuple):
    """An actor who left with a step that another one took."""

    step: int
    env_index: int
    key_index: int
    agent_id: int


@attrs.frozen
class DecisionTable:
    """The decisions of one policy key: (N·T, ...) arrays, of which a rollout fills as many rows as there were.

    Pages of rows that are never filled are never touched, so a table costs the memory of its decisions.
    """

    observation: ArrayDict
    action: ArrayDict


@attrs.frozen
class DecisionIndex:
    """Where the decisions of one policy key are in a rollout, in order of time and environment.

    Attributes:
        step, env_index: (M,) of each decision.
        row: (M,) its row in the table.
        agent_id: (M,).
    """

    step: np.ndarray
    env_index: np.ndarray
    row: np.ndarray
    agent_id: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, index: np.ndarray) -> DecisionIndex:
        """The decisions at `index` (m,), copied."""
        return DecisionIndex(self.step[index], self.env_index[index], self.row[index], self.agent_id[index])


class StructuredBuffer:
    """T decisions of N environments with several policy keys or agents, overwritten by the next rollout.

    Attributes:
        policy_keys: in the order of the spaces; `key_index` points into it.
        reward: (T, N) float32, what `step` returned.
        actor_reward: (T, N) float32, the same with what `get_actor_rewards` gave in the place of flat steps' rewards.
        terminated, truncated, flat_step_end, actor_done: (T, N) bool, of the decision at t.
        void: (T, N) bool: decisions that only reset an environment and are no transitions.
        key_index, agent_id: (T, N) int64, who decided.
        row: (T, N) int64, where the decision is in its policy key's table.
        tables: by policy key.
        last_key_index, last_agent_id: (N,) int64, who decides after the rollout.
        last_observation: by policy key, name to (N, ...); rows of other keys' environments hold no observation.
        truncations: (t, env_index (m,), finals) of every truncated, not terminated episode.
        actor_rewards: (t, env index, (m,) rewards) that replace those of the m sub-steps of the flat step that ended
            at t; some of these may lie before the rollout.
        departures: of the actors who left with the decision of another one.
    """

    def __init__(self, spaces: StructuredSpaces, n_steps: int, n_envs: int) -> None:
        self.spaces = spaces
        self.policy_keys = spaces.policy_keys
        self.n_steps = n_steps
        self.n_envs = n_envs
        shape, n_rows = (n_steps, n_envs), n_steps * n_envs
        self.reward, self.actor_reward = (np.zeros(shape, np.float32) for _ in range(2))
        self.terminated, self.truncated, self.void = (np.zeros(shape, bool) for _ in range(3))
        self.flat_step_end, self.actor_done = (np.zeros(shape, bool) for _ in range(2))
        self.key_index, self.agent_id, self.row = (np.zeros(shape, np.int64) for _ in range(3))
        self.tables = {
            key: DecisionTable(allocate(spaces.observation[key], n_rows), allocate(spaces.action[key], n_rows))
            for key in self.policy_keys
        }
        self.last_key_index, self.last_agent_id = (np.zeros(n_envs, np.int64) for _ in range(2))
        self.last_observation = {key: allocate(spaces.observation[key], n_envs) for key in self.policy_keys}
        self.truncations: list[tuple[int, np.ndarray, Finals]] = []
        self._observations = [tuple(self.tables[key].observation.items()) for key in self.policy_keys]
        self._row_numbers = np.arange(n_rows)
        self._n_rows = [0] * len(self.policy_keys)
        self.actor_rewards: list[tuple[int, int, np.ndarray]] = []
        self.departures: list[Departure] = []

    @property
    def time_major(self) -> tuple[str, ...]:
        """The names of `columns` that are (T, N) and not (N, ...)."""
        return tuple(name for name, array in self._dense().items() if array.ndim == 2)

    def columns(self) -> ArrayDict:
        """Every array by a name; tables as (N, T, ...) views, so that a slice of environments owns whole rows."""
        columns = {**self._dense(), **self._last_observations()}
        for key in self.policy_keys:
            columns |= self._table_columns(key)
        return columns

    def decisions(self, policy_key: PolicyKey) -> DecisionIndex:
        """The decisions of one policy key, without void ones."""
        own = (self.key_index == self.policy_keys.index(policy_key)) & ~self.void
        step, env_index = np.nonzero(own)
        return DecisionIndex(step, env_index, self.row[own], self.agent_id[own])

    @property
    def step_over(self) -> np.ndarray:
        """(T, N) bool: the decision finished its flat step or its episode."""
        over: np.ndarray = self.flat_step_end | self.terminated | self.truncated
        return over

    def copy_by_environment(self, columns: Mapping[str, np.ndarray]) -> None:
        """Copy everything to the `columns` of a buffer of this size, decision t of environment n to row n·T + t.

        So a slice of environments has its decisions in the same slice of every table. Rows without a decision keep
        what they held.
        """
        for name, array in {**self._dense(), **self._last_observations()}.items():
            columns[name][...] = array
        columns["row"][...] = np.arange(self.n_envs) * self.n_steps + np.arange(self.n_steps)[:, None]
        for key in self.policy_keys:
            own = self.decisions(key)
            for name, array in self._table_columns(key).items():
                columns[name][own.env_index, own.step] = array.reshape(-1, *array.shape[2:])[own.row]

    # Filling

    def begin(self) -> None:
        """Start a rollout over."""
        self.truncations.clear()
        self.void.fill(False)
        self._n_rows = [0] * len(self.policy_keys)
        self.actor_rewards.clear()
        self.departures.clear()

    def add_observation(self, step: int, group: Group, key_index: int) -> slice:
        """Write who decides at `step` and what they see; returns the rows of the table."""
        first = self._n_rows[key_index]
        rows = slice(first, first + len(group.env_index))
        self._n_rows[key_index] = rows.stop
        for name, array in self._observations[key_index]:
            array[rows] = group.observation[name]
        place: Any = step if group.aligned else (step, group.env_index)
        self.key_index[place] = key_index
        self.agent_id[place] = group.agent_id
        self.row[place] = self._row_numbers[rows]
        return rows

    def add_results(self, step: int, tick: Tick) -> None:
        """Write what the decisions of `step` led to."""
        self.reward[step] = tick.reward
        self.terminated[step] = tick.terminated
        self.truncated[step] = tick.truncated
        self.flat_step_end[step] = True if tick.flat_step_end is None else tick.flat_step_end
        self.actor_done[step] = False if tick.actor_done is None else tick.actor_done
        if tick.actor_rewards:
            self.actor_rewards += [(step, index, rewards) for index, rewards in tick.actor_rewards.items()]
        for index, actors in tick.departed.items():
            self.departures += [Departure(step, index, self.policy_keys.index(key), agent) for key, agent in actors]

    def add_truncation(self, step: int, final: FinalObservation, policy_key: PolicyKey, cut: np.ndarray) -> None:
        """Keep copies of the final observations (rows `cut` of `final`) of episodes cut at `step`."""
        agents = np.zeros(len(final.env_index), np.int64) if final.agent_id is None else final.agent_id
        finals = Finals(policy_key, agents, final.observation).select(cut)
        self.truncations.append((step, final.env_index[cut], finals))

    def end(self, tick: Tick, open_sub_steps: np.ndarray) -> None:
        """Write what follows the rollout and put the actor rewards in their places.

        Args:
            tick: after the last decision.
            open_sub_steps: (N,) decisions that the flat steps in progress had before this rollout; updated.

        Raises:
            EnvError: an environment gave another number of actor rewards than its flat step had decisions.
        """
        for key_index, key in enumerate(self.policy_keys):
            group = tick.groups.get(key)
            if group is not None:
                self.last_key_index[group.env_index] = key_index
                self.last_agent_id[group.env_index] = group.agent_id
                for name, array in self.last_observation[key].items():
                    array[group.env_index] = group.observation[name]
        position = self._sub_step_positions(open_sub_steps)
        self.actor_reward[...] = self.reward
        for step, index, rewards in self.actor_rewards:
            n_decisions = int(position[step, index]) + 1
            if rewards.shape != (n_decisions,):
                raise _misfit(index, step, rewards, n_decisions)
            # Decisions before the rollout were trained on already; theirs are left out.
            n_here = min(n_decisions, step + 1)
            self.actor_reward[step + 1 - n_here : step + 1, index] = rewards[n_decisions - n_here :]
        open_sub_steps[:] = np.where(self.step_over[-1], 0, position[-1] + 1)

    def _sub_step_positions(self, before: np.ndarray) -> np.ndarray:
        """(T, N) which decision of its flat step each one is, from 0."""
        steps = np.arange(self.n_steps)[:, None]
        starts = np.zeros((self.n_steps, self.n_envs), np.int64)
        starts[0] = -before
        starts[1:] = np.where(self.step_over[:-1], steps[1:], -before.max(initial=0))
        starts = np.maximum.accumulate(starts, axis=0)
        positions: np.ndarray = steps - starts
        return positions

    def _dense(self) -> ArrayDict:
        names = ("reward", "actor_reward", "terminated", "truncated", "void", "flat_step_end", "actor_done")
        places = ("key_index", "agent_id", "row", "last_key_index", "last_agent_id")
        return {name: getattr(self, name) for name in (*names, *places)}

    def _last_observations(self) -> ArrayDict:
        own = self.last_observation.items()
        return {f"last_observation/{key}/{name}": array for key, rows in own for name, array in rows.items()}

    def _table_columns(self, policy_key: PolicyKey) -> ArrayDict:
        table, shape = self.tables[policy_key], (self.n_envs, self.n_steps)
        return {
            f"{kind}/{policy_key}/{name}": array.reshape(*shape, *array.shape[1:])
            for kind, arrays in (("observation", table.observation), ("action", table.action))
            for name, array in arrays.items()
        }


def _misfit(index: int, step: int, rewards: np.ndarray, n_decisions: int) -> EnvError:
    return EnvError(
        "get_actor_rewards() does not give one reward a sub-step",
        received=f"shape {rewards.shape}",
        expected=f"({n_decisions},): the decisions of the flat step that just ended",
        owner=f"environment {index}, decision {step} of the rollout",
        help="return one reward for each decision since the last flat step, or None",
    )
