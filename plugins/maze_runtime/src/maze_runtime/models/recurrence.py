"""State that networks carry from step to step of an episode: how it travels, and where it is kept while acting.

State enters a network like an observation and leaves it like an output. A block that carries state reads, beside its
inputs, `STATE + name` (B, S) and `BEGINS` (T·B,), and gives, beside its outputs, `NEXT_STATE + name` (T·B, S): the
state after each row. Rows are T steps of B sequences, time-major, `t·B + b`; acting is the case T = 1. Where `BEGINS`
is not zero an episode begins, and the state is zero before that row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.env.actor_columns import ActorColumns

STATE = "state/"
NEXT_STATE = "next_state/"
BEGINS = "episode/begins"

CRITIC_ROLE = "critic"
"""States of the critic are called "critic:state/…"; acting needs those of other roles only."""

Shape = tuple[int, ...]

_COLUMNS = "columns"
"""What `ActingStates.state_dict` calls the agents of its columns."""


def state_shapes_of(network: Any) -> dict[str, Shape]:
    """Name to shape (S,) of the states a network reads; empty for feed-forward networks."""
    return dict(getattr(network, "state_shapes", {}))


def carries_state(model: Any, policy_key: PolicyKey | None = None) -> bool:
    """Whether a model's networks carry state from step to step: those of one policy key, or any of them.

    Args:
        model: an `ActorCritic`; one without `state_shapes` (see `RecurrentModel`) carries none.
    """
    shapes_of = getattr(model, "state_shapes", None)
    keys = model.spaces.policy_keys if policy_key is None else (policy_key,)
    return shapes_of is not None and any(shapes_of(key) for key in keys)


def is_of_critic(name: str) -> bool:
    """Whether a state, by its name in `RecurrentModel.state_shapes`, is one that acting does not need."""
    return name.startswith(f"{CRITIC_ROLE}:")


def next_state_name(name: str) -> str:
    """The output that follows the state `name`."""
    return NEXT_STATE + name.removeprefix(STATE)


class ActingStates:
    """The states of every environment and agent of one policy key; zero where an episode begins.

    Args:
        shapes: state to shape of one row.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._shapes = dict(shapes)
        self._arrays: ArrayDict = {name: np.zeros((0, 0, *shape), np.float32) for name, shape in shapes.items()}
        self._columns = ActorColumns()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the states, in order."""
        return tuple(self._shapes)

    def read(self, env_index: np.ndarray, agent_id: np.ndarray) -> ArrayDict:
        """Rows (n, S) of these environments and agents, copies."""
        column = self._reserve(env_index, agent_id)
        return {name: array[env_index, column] for name, array in self._arrays.items()}

    def write(self, env_index: np.ndarray, agent_id: np.ndarray, states: ArrayDict) -> None:
        """Keep the states (n, S) after these rows."""
        if len(env_index):
            column = self._reserve(env_index, agent_id)
            for name, array in self._arrays.items():
                array[env_index, column] = states[name]

    def clear(self, env_index: np.ndarray) -> None:
        """Episodes begin in these environments."""
        self._columns.forget(env_index)
        for array in self._arrays.values():
            array[env_index[env_index < len(array)]] = 0.0

    def state_dict(self) -> ArrayDict:
        """Copies of all states, (E, A, S) each, and whose columns A are where that is not their agents' number."""
        states = {name: array.copy() for name, array in self._arrays.items()}
        columns = self._columns.to_array()
        return {**states, _COLUMNS: columns} if len(columns) else states

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state_dict` returned."""
        self._columns = ActorColumns.from_array(np.asarray(arrays[_COLUMNS])) if _COLUMNS in arrays else ActorColumns()
        self._arrays = {name: np.array(arrays[name], np.float32) for name in self._shapes}

    def _reserve(self, env_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
        """Make room for these actors; returns their columns (n,)."""
        column = self._columns.of(env_index, agent_id)
        n_envs, n_columns = int(env_index.max()) + 1, int(column.max()) + 1
        for name, array in self._arrays.items():
            if array.shape[0] < n_envs or array.shape[1] < n_columns:
                size = (max(n_envs, array.shape[0]), max(n_columns, array.shape[1]))
                larger = np.zeros((*size, *self._shapes[name]), np.float32)
                larger[: array.shape[0], : array.shape[1]] = array
                self._arrays[name] = larger
        return column
