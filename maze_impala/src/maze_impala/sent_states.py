"""The states that actors of structured environments had before a rollout, as they travel with it.

Each state of a policy key has a column (N, T + 1, S). Place t holds what the actor remembered whose first decision in
the rollout is the one at t. Place T is for the actor that is valued where the episode that was running goes on behind
the rollout, or was cut within it: that one may not have decided since the rollout began. Other places mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.rollout.actor_replay import StatesBefore
from maze_runtime.rollout.structured_buffer import StructuredBuffer


def state_columns(model: RecurrentModel, n_steps: int, n_envs: int) -> ArrayDict:
    """Empty columns for a rollout, by name."""
    return {
        _name(key, name): np.zeros((n_envs, n_steps + 1, *shape), np.float32)
        for key in model.spaces.policy_keys
        for name, shape in model.state_shapes(key).items()
    }


def send(columns: ArrayDict, rollout: StructuredBuffer, before: Mapping[PolicyKey, StatesBefore]) -> None:
    """Write what actors remembered before the rollout into its columns."""
    for key, env_index, agent_id, place in (*_first_decisions(rollout), *_valued_behind(rollout)):
        states = before[key].read(env_index, agent_id) if len(env_index) else {}
        for name, state in states.items():
            columns[_name(key, name)][env_index, place] = state


class SentStates:
    """What `send` wrote of a policy key, asked like the states of a policy that acts.

    Args:
        columns: of the rollout.
        rollout: (T, N).
        policy_key: whose.
        names: of its states.
    """

    def __init__(
        self, columns: Mapping[str, np.ndarray], rollout: StructuredBuffer, policy_key: PolicyKey, names: list[str]
    ) -> None:
        self._columns = {name: columns[_name(policy_key, name)] for name in names}
        self._n_steps = rollout.n_steps
        self._places: dict[tuple[int, int], int] = {}
        for key, env_index, agent_id, place in _first_decisions(rollout):
            if key == policy_key:
                who = zip(env_index.tolist(), agent_id.tolist(), strict=True)
                self._places = dict(zip(who, place.tolist(), strict=True))

    def read(self, env_index: np.ndarray, agent_id: np.ndarray) -> ArrayDict:
        """See `StatesBefore`."""
        asked = zip(env_index.tolist(), agent_id.tolist(), strict=True)
        place = np.array([self._places.get(who, self._n_steps) for who in asked], np.int64)
        return {name: column[env_index, place] for name, column in self._columns.items()}


_Places = tuple[PolicyKey, np.ndarray, np.ndarray, np.ndarray]
"""A policy key, and environments, agents and places in columns, (m,) each."""


def _first_decisions(rollout: StructuredBuffer) -> Iterator[_Places]:
    """Where each actor's first decision is."""
    for key in rollout.policy_keys:
        own = rollout.decisions(key)
        order = np.lexsort((own.step, own.agent_id, own.env_index))
        env_index, agent_id = own.env_index[order], own.agent_id[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(env_index) != 0) | (np.diff(agent_id) != 0)
        yield key, env_index[is_first], agent_id[is_first], own.step[order][is_first]


def _valued_behind(rollout: StructuredBuffer) -> Iterator[_Places]:
    """Who is valued behind the first episode of each environment; those of later ones begin with nothing."""
    ended = rollout.terminated | rollout.truncated | rollout.void
    end = np.where(ended.any(axis=0), ended.argmax(axis=0), rollout.n_steps)
    for key_index, key in enumerate(rollout.policy_keys):
        goes_on = np.flatnonzero((end == rollout.n_steps) & (rollout.last_key_index == key_index))
        yield key, goes_on, rollout.last_agent_id[goes_on], np.full(len(goes_on), rollout.n_steps)
    for step, index, final in rollout.truncations:
        is_first = end[index] == step
        yield final.policy_key, index[is_first], final.agent_id[is_first], np.full(is_first.sum(), rollout.n_steps)


def _name(key: PolicyKey, state: str) -> str:
    return f"{key}.{state}"
