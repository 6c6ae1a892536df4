"""Ticks of flat environments in arrays that a process shares with its workers.

Workers write their rows (`EnvHost`); `SharedTicks` is the caller's view: actions go in, ticks come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.contracts.workers import ArraySpec
from maze_runtime.env.batching import layout

PARITY = "parity"
"""Shared array (1,): which half of the double buffers the current tick is in."""


def array_specs(spaces: StructuredSpaces, n_envs: int) -> dict[str, ArraySpec]:
    """The shared arrays of n flat environments.

    Observations, rewards and flags have a leading dimension of two: ticks alternate between the halves, so a
    tick outlives the making of the next one.
    """
    (key,) = spaces.policy_keys
    specs = {
        PARITY: ArraySpec(shape=(1,), dtype="int64"),
        "reward": ArraySpec(shape=(2, n_envs), dtype="float32"),
        "terminated": ArraySpec(shape=(2, n_envs), dtype="bool"),
        "truncated": ArraySpec(shape=(2, n_envs), dtype="bool"),
    }
    for name, leaf in layout(spaces.observation[key]).items():
        specs[f"observation/{name}"] = ArraySpec(shape=(2, n_envs, *leaf.shape), dtype=leaf.dtype.str)
        specs[f"final/{name}"] = ArraySpec(shape=(n_envs, *leaf.shape), dtype=leaf.dtype.str)
    for name, leaf in layout(spaces.action[key]).items():
        specs[f"action/{name}"] = ArraySpec(shape=(n_envs, *leaf.shape), dtype=leaf.dtype.str)
    return specs


def by_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> ArrayDict:
    """The arrays called `prefix/name`, by name."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


class SharedTicks:
    """Reads ticks from the arrays of `array_specs`, and writes actions to them.

    Attributes:
        policy_key: of every environment.

    Args:
        arrays: shared, by name.
        spaces: of every environment, which is flat.
        n_envs: N.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], spaces: StructuredSpaces, n_envs: int) -> None:
        (self.policy_key,) = spaces.policy_keys
        self._parity = arrays[PARITY]
        self._action = by_prefix(arrays, "action")
        self._final = by_prefix(arrays, "final")
        self._reward, self._terminated, self._truncated = arrays["reward"], arrays["terminated"], arrays["truncated"]
        halves = by_prefix(arrays, "observation")
        self._observation = [{name: array[half] for name, array in halves.items()} for half in range(2)]
        self._env_index = np.arange(n_envs)
        self._agent_id = np.zeros(n_envs, np.int64)

    def begin(self) -> None:
        """The next tick is made in the other half of the buffers."""
        self._parity[0] ^= 1

    def write_actions(self, heads: ArrayDict) -> None:
        """Put the actions, name to (N, …), where workers read them."""
        for name, array in self._action.items():
            array[...] = heads[name]

    def read(self, infos: dict[int, dict[str, Any]]) -> Tick:
        """The tick that the workers have made, with these infos by environment."""
        half = int(self._parity[0])
        terminated, truncated = self._terminated[half], self._truncated[half]
        group = Group(self._env_index, self._agent_id, dict(self._observation[half]))
        tick = Tick({self.policy_key: group}, self._reward[half], terminated, truncated, infos=infos)
        ended = terminated | truncated
        if ended.any():
            index = np.flatnonzero(ended)
            final = {name: array[index] for name, array in self._final.items()}
            tick.final_observation[self.policy_key] = FinalObservation(index, final)
        return tick

    def end_where_last_seen(self, rows: slice) -> None:
        """The observations of the tick before are the final ones of these environments."""
        for name, array in self._observation[1 - int(self._parity[0])].items():
            self._final[name][rows] = array[rows]

    def truncate(self, rows: slice) -> None:
        """Episodes of these environments were cut in this tick."""
        self._truncated[int(self._parity[0]), rows] = True
