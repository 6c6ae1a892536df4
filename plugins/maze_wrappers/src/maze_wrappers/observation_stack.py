"""The last observations beside the newest one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.errors import SpaceError
from maze_runtime.env.actor_columns import ActorColumns
from maze_runtime.env.mask_reading import masks_of
from maze_wrappers.known_names import require_known
from maze_wrappers.options import ObservationStackOptions

OWNER = "maze-wrappers: observation-stack"


class ObservationStack(Transform):
    """Each stacked key holds its last `n` observations, (n, *shape), oldest first; zeros before the episode began.

    Every actor (policy key and agent) has a stack of its own, of what it observed itself. With `deltas` all but the
    newest entry are changes: entry i is observation i + 1 minus observation i, 0 where i lies before the episode.

    Raises:
        RequestError: from `bind`, for a key that does not exist.
        SpaceError: from `bind`, for a key that is a Box under no policy key.
    """

    def __init__(self, options: ObservationStackOptions) -> None:
        self.options = options
        self._inner: StructuredSpaces | None = None
        self._names: dict[PolicyKey, dict[str, str]] = {}

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The spaces with stacks in place of the keys, or beside them."""
        self._check_names(inner)
        self._inner = inner
        self._names = {key: self._stacked(space, inner.action[key]) for key, space in inner.observation.items()}
        observation = {key: self._outer(key, space) for key, space in inner.observation.items()}
        return attrs.evolve(inner, observation=observation)

    def memory(self, n_envs: int) -> Stacks:
        """The stacks of one batch."""
        assert self._inner is not None, "bind first"
        stacks = {}
        for key, space in self._inner.observation.items():
            stacks[key] = {
                (name, outer): _Stack(space[name], n_envs, self.options) for name, outer in self._names[key].items()
            }
        return Stacks(stacks, self.options.keep_original)

    def _stacked(self, space: spaces.Dict, action: spaces.Dict) -> dict[str, str]:
        """Inner to outer name of every key that is stacked."""
        boxes = {name for name, leaf in space.spaces.items() if isinstance(leaf, spaces.Box)}
        wanted = self.options.keys or space.spaces.keys() - masks_of(space, action)
        suffix = "-stack" if self.options.keep_original else ""
        return {name: f"{name}{suffix}" for name in space.spaces if name in boxes and name in wanted}

    def _outer(self, key: PolicyKey, space: spaces.Dict) -> spaces.Dict:
        leaves = dict(space.spaces)
        for name, outer in self._names[key].items():
            leaves[outer] = self._stack_space(space[name])
        return spaces.Dict(leaves)

    def _stack_space(self, box: Any) -> spaces.Box:
        n, dtype = self.options.n, np.float32 if self.options.deltas else box.dtype.type
        low, high = least, most = box.low, box.high
        if self.options.deltas:
            low, high = low.astype(np.float64), high.astype(np.float64)
            least, most = low - high, high - low
        zero = low.dtype.type(0)
        older = [np.minimum(least, zero), np.maximum(most, zero)]
        both = [np.stack([*[old] * (n - 1), newest]) for old, newest in zip(older, (low, high), strict=True)]
        return spaces.Box(both[0].astype(dtype), both[1].astype(dtype), (n, *box.shape), dtype)

    def _check_names(self, inner: StructuredSpaces) -> None:
        known: dict[str, list[spaces.Space[Any]]] = {}
        for space in inner.observation.values():
            for name, leaf in space.spaces.items():
                known.setdefault(name, []).append(leaf)
        require_known(self.options.keys, known, "there is no observation {} to stack", option="keys", owner=OWNER)
        for name in self.options.keys:
            if not any(isinstance(leaf, spaces.Box) for leaf in known[name]):
                raise SpaceError(
                    f"the observation {name!r} cannot be stacked",
                    received=str(known[name][0]),
                    expected="a Box",
                    option="keys",
                    owner=OWNER,
                    help="one-hot makes a Box of categories",
                )


class Stacks:
    """Implements `Memory`.

    Args:
        stacks: by policy key, then by inner and outer name.
    """

    def __init__(self, stacks: dict[PolicyKey, dict[tuple[str, str], _Stack]], keep_original: bool) -> None:
        self._stacks = stacks
        self._keep_original = keep_original
        self._awaiting: np.ndarray | None = None

    def reset(self, tick: Tick) -> Tick:
        """All environments were reset."""
        for stack in self._all():
            stack.clear()
        self._awaiting = tick.awaiting_reset
        return self._outer(tick)

    def step(self, actions: Mapping[PolicyKey, ArrayDict], tick: Tick) -> Tick:
        """Final observations belong to the episode that ended, the others of those environments to the next one."""
        finals = {}
        for key, final in tick.final_observation.items():
            agents = np.zeros(len(final.env_index), np.int64) if final.agent_id is None else final.agent_id
            rows = self._pushed(key, final.observation, final.env_index, agents, keep=False)
            finals[key] = FinalObservation(final.env_index, rows, final.agent_id)
        ended = tick.terminated | tick.truncated
        if self._awaiting is not None:
            ended = ended | self._awaiting
        if ended.any():
            for stack in self._all():
                stack.clear(np.flatnonzero(ended))
        self._awaiting = tick.awaiting_reset
        return attrs.evolve(self._outer(tick), final_observation=finals)

    def _all(self) -> list[_Stack]:
        return [stack for stacks in self._stacks.values() for stack in stacks.values()]

    def _outer(self, tick: Tick) -> Tick:
        groups = {
            key: Group(
                group.env_index,
                group.agent_id,
                self._pushed(key, group.observation, group.env_index, group.agent_id),
                group.aligned,
            )
            for key, group in tick.groups.items()
        }
        return attrs.evolve(tick, groups=groups)

    def _pushed(
        self, key: PolicyKey, rows: ArrayDict, env_index: np.ndarray, agent_id: np.ndarray, *, keep: bool = True
    ) -> ArrayDict:
        result = dict(rows)
        for (name, outer), stack in self._stacks[key].items():
            result[outer] = stack.push(rows[name], env_index, agent_id, keep)
        return result


class _Stack:
    """The last observations of every environment and agent under one name."""

    def __init__(self, box: Any, n_envs: int, options: ObservationStackOptions) -> None:
        self._n_envs, self._n = n_envs, options.n
        self._deltas = options.deltas
        self._shape = (options.n, *box.shape)
        self._dtype = np.float32 if options.deltas else box.dtype
        self._columns = ActorColumns()
        self.clear()

    def clear(self, env_index: np.ndarray | None = None) -> None:
        """Forget the episodes of these environments, or all."""
        self._columns.forget(env_index)
        if env_index is None:
            self._rows = np.zeros((self._n_envs, *self._shape), self._dtype)
            self._ages = np.zeros(self._n_envs, np.int64)
            return
        # Rows are column by column; what was handed out is never overwritten.
        everyone = (env_index + np.arange(0, len(self._rows), self._n_envs)[:, None]).reshape(-1)
        self._rows, self._ages = self._rows.copy(), self._ages.copy()
        self._rows[everyone], self._ages[everyone] = 0, 0

    def push(self, newest: np.ndarray, env_index: np.ndarray, agent_id: np.ndarray, keep: bool) -> np.ndarray:
        """The stacks with these observations on top, (m, n, …)."""
        index = self._columns.of(env_index, agent_id) * self._n_envs + env_index
        self._grow(int(index.max()) + 1)
        whole = len(index) == len(self._rows) == self._n_envs
        rows, ages = (self._rows, self._ages) if whole else (self._rows[index], self._ages[index])
        newest = newest.astype(self._dtype, copy=False)
        result = np.concatenate([rows[:, 1:], newest[:, None]], axis=1)
        if keep and whole:
            self._rows, self._ages = result, ages + 1
        elif keep:
            self._rows[index], self._ages[index] = result, ages + 1
        return self._as_deltas(result, ages + 1) if self._deltas else result

    def _grow(self, n_rows: int) -> None:
        if n_rows > len(self._rows):
            n_columns = -(-n_rows // self._n_envs)
            more = n_columns * self._n_envs - len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros((more, *self._shape), self._dtype)])
            self._ages = np.concatenate([self._ages, np.zeros(more, np.int64)])

    def _as_deltas(self, rows: np.ndarray, ages: np.ndarray) -> np.ndarray:
        changes = rows[:, 1:] - rows[:, :-1]
        # Entry i is observation number age − n + i of the episode.
        is_before = np.arange(self._n - 1) < self._n - ages[:, None]
        changes[is_before] = 0
        return np.concatenate([changes, rows[:, -1:]], axis=1)
