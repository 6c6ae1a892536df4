"""Where the observations of a batch of single environments are written, and how a tick is made of them.

`FlatRows` serves flat environments (row i is environment i), `StructuredRows` those with several policy keys or
agents. Both keep two sets of buffers and alternate, so a tick outlives the next one's making.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import ActorID, Observation, PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick
from maze_kernel.errors import EnvError
from maze_runtime.env.actors import AGENT_NUMBERS, TYPE, require_actor, require_departed
from maze_runtime.env.batching import allocate, check_observation, copy_observation, stack_rows
from maze_runtime.env.departures import ReportsDepartures
from maze_runtime.env.flat import FlatEnv

Final = tuple[int, ActorID, Observation]
"""Index of an environment whose episode ended, who would decide next, and what it sees."""


class FlatRows:
    """Rows are environments in order; one group, reused index arrays.

    Attributes:
        items_of_tick: the arrays of observations, by name.
    """

    def __init__(self, n_envs: int, structured_spaces: StructuredSpaces) -> None:
        (self._key,) = structured_spaces.policy_keys
        self._actor = ActorID(self._key, 0)
        self._space = structured_spaces.observation[self._key]
        self._heads = structured_spaces.action[self._key]
        self._buffers = [
            (allocate(self._space, n_envs), np.zeros(n_envs, np.float32), np.zeros((2, n_envs), np.bool_))
            for _ in range(2)
        ]
        self._env_index = np.arange(n_envs)
        self._agent_id = np.zeros(n_envs, np.int64)
        self._parity = 0

    def begin_tick(self) -> None:
        self._parity ^= 1
        self._observation, self.reward, flags = self._buffers[self._parity]
        self.reward.fill(0.0)
        flags.fill(False)
        self.terminated, self.truncated = flags
        self.items_of_tick = tuple(self._observation.items())

    def space_of(self, _env: StructuredEnv) -> spaces.Dict:
        return self._space

    def action_rows(self, actions: Mapping[PolicyKey, ArrayDict]) -> Sequence[dict[str, Any]]:
        return action_rows(self._heads, actions[self._key])

    def write(self, index: int, _actor: ActorID, observation: Observation) -> None:
        for key, array in self.items_of_tick:
            array[index] = observation[key]

    def examine(self, envs: Sequence[StructuredEnv]) -> None:
        """Nobody: an episode ends with its only actor."""

    def final(self, index: int, _env: StructuredEnv, observation: Observation) -> Final:
        check_observation(self._space, observation)
        return index, self._actor, copy_observation(self._space, observation)

    def tick(self, finals: Sequence[Final], infos: dict[int, dict[str, Any]]) -> Tick:
        # The dict is new each tick, so that a caller may extend it.
        group = Group(self._env_index, self._agent_id, dict(self.items_of_tick))
        tick = Tick({self._key: group}, self.reward, self.terminated, self.truncated, infos=infos)
        if finals:
            rows = [observation for _, _, observation in finals]
            index = np.array([index for index, _, _ in finals])
            tick.final_observation[self._key] = FinalObservation(index, stack_rows(self._space, rows))
        return tick


class StructuredRows:
    """Rows of a policy key's arrays are the environments whose actor has that key, in rising order.

    Simulations that take turns by a fixed scheme are mostly in step. While they are, rows are environments in order.

    Attributes:
        asks_flags: environments say more than which steps are flat steps: see `write_flags`.
        together: who decides in all environments that were written at this tick; None: not everywhere the same.
        items_of_tick: the arrays of their observations, by name.
    """

    def __init__(self, n_envs: int, structured_spaces: StructuredSpaces) -> None:
        self._n_envs = n_envs
        self._spaces = structured_spaces
        self._everyone = (np.arange(n_envs), np.zeros(n_envs, np.int64))
        self._buffers = [_structured_buffers(n_envs, structured_spaces) for _ in range(2)]
        self._parity = 0
        self._groups: dict[PolicyKey, Group] = {}
        self._departures: list[ReportsDepartures | None] = [None] * n_envs
        self.asks_flags = True
        self.together: ActorID | None = None

    def examine(self, envs: Sequence[StructuredEnv]) -> None:
        """Those of the environments that report departures are asked at every step; for nothing, where none tells."""
        self._departures = [
            capability(env, ReportsDepartures)  # type: ignore[type-abstract]
            for env in envs
        ]
        departs = any(own is not None for own in self._departures)
        self.asks_flags = departs or not all(map(_tells_flat_steps_alone, envs))

    def begin_tick(self) -> None:
        self._parity ^= 1
        self._tables, self.reward, flags = self._buffers[self._parity]
        self.reward.fill(0.0)
        flags.fill(False)
        self.terminated, self.truncated, self.flat_step_end, self._actor_done = flags
        self.together = None
        for rows in self._tables.values():
            rows.envs.clear()
            rows.agents.clear()
        self._actor_rewards: dict[int, np.ndarray] = {}
        self._departed: dict[int, tuple[ActorID, ...]] = {}

    def space_of(self, env: StructuredEnv) -> spaces.Dict:
        actor = env.actor_id()
        if not isinstance(actor, ActorID):
            raise EnvError(
                "actor_id() gives no ActorID",
                received=repr(actor),
                expected=TYPE,
                help="return ActorID(policy key, agent)",
            )
        require_actor(self._spaces, *actor)
        return self._spaces.observation[actor.step_key]

    def action_rows(self, actions: Mapping[PolicyKey, ArrayDict]) -> Sequence[dict[str, Any]]:
        rows: list[dict[str, Any]] = [{}] * self._n_envs
        for key, group in self._groups.items():
            own = action_rows(self._spaces.action[key], actions[key])
            if group.aligned:
                return own
            for index, row in zip(group.env_index.tolist(), own, strict=True):
                rows[index] = row
        return rows

    def write(self, index: int, actor: ActorID, observation: Observation) -> None:
        """Environments come in order, from 0 on."""
        key, agent_id = actor
        rows = self._tables.get(key)
        if rows is None or (agent_id and not (type(agent_id) is int and 0 < agent_id < rows.n_agents)):
            require_actor(self._spaces, key, agent_id)
            rows = self._tables[key]
        if index == 0:
            self.together, self.items_of_tick = actor, rows.items
        row = index
        if actor != self.together:
            self._part(index)
            row = len(rows.envs)
            rows.envs.append(index)
            rows.agents.append(agent_id)
        for name, array in rows.items:
            array[row] = observation[name]

    def _part(self, n_together: int) -> None:
        """From here on environments are counted: the first ones have the same actor, this one has another."""
        if self.together is not None:
            key, agent_id = self.together
            self._tables[key].envs[:] = range(n_together)
            self._tables[key].agents[:] = [agent_id] * n_together
            self.together = None

    def write_flags(self, index: int, env: StructuredEnv) -> None:
        """What environments may say beside `is_flat_step_end`, and that."""
        if env.is_actor_done():
            self._actor_done[index] = True
        reports = self._departures[index]
        if reports is not None and (departed := reports.departed_actors()):
            self._departed[index] = require_departed(self._spaces, departed)
        if env.is_flat_step_end():
            self.flat_step_end[index] = True
            rewards = env.get_actor_rewards()
            if rewards is not None:
                self._actor_rewards[index] = np.array(rewards, dtype=np.float32)

    def final(self, index: int, env: StructuredEnv, observation: Observation) -> Final:
        space = self.space_of(env)
        check_observation(space, observation)
        return index, env.actor_id(), copy_observation(space, observation)

    def tick(self, finals: Sequence[Final], infos: dict[int, dict[str, Any]]) -> Tick:
        self._groups = self._grouped()
        return Tick(
            dict(self._groups),
            self.reward,
            self.terminated,
            self.truncated,
            flat_step_end=self.flat_step_end,
            actor_done=self._actor_done,
            final_observation=self._final_observations(finals) if finals else {},
            actor_rewards=self._actor_rewards,
            infos=infos,
            departed=self._departed,
        )

    def _grouped(self) -> dict[PolicyKey, Group]:
        everyone, first_agents = self._everyone
        if self.together is None:
            return {key: rows.group(everyone, first_agents) for key, rows in self._tables.items() if rows.envs}
        key, agent_id = self.together
        agents = np.full(self._n_envs, agent_id, np.int64) if agent_id else first_agents
        return {key: Group(everyone, agents, dict(self.items_of_tick))}

    def _final_observations(self, finals: Sequence[Final]) -> dict[PolicyKey, FinalObservation]:
        result = {}
        for key in self._spaces.policy_keys:
            own = [(index, actor.agent_id, observation) for index, actor, observation in finals if actor[0] == key]
            if own:
                index, agents, observations = zip(*own, strict=True)
                rows = stack_rows(self._spaces.observation[key], observations)
                result[key] = FinalObservation(np.array(index), rows, np.array(agents, np.int64))
        return result


class _KeyRows:
    """Who decides under one policy key at a tick, row by row, and what they see; `n_agents` there are at most."""

    def __init__(self, n_envs: int, space: spaces.Dict, n_agents: int) -> None:
        self.items = tuple(allocate(space, n_envs).items())
        self.n_agents = n_agents if n_agents > 0 else AGENT_NUMBERS
        self.envs: list[int] = []
        self.agents: list[int] = []

    def group(self, all_envs: np.ndarray, first_agents: np.ndarray) -> Group:
        """The rows as a group; `all_envs` 0 … N−1 and `first_agents` 0 … 0 are taken as they are where they fit."""
        n_rows = len(self.envs)
        agents = np.array(self.agents, np.int64) if any(self.agents) else first_agents[:n_rows]
        if n_rows == len(all_envs):
            return Group(all_envs, agents, dict(self.items))
        return Group(np.array(self.envs), agents, {name: array[:n_rows] for name, array in self.items}, aligned=False)


def _tells_flat_steps_alone(env: StructuredEnv) -> bool:
    """Whether its other answers are those that `FlatEnv` gives for every environment."""
    return all(
        getattr(getattr(env, name), "__func__", None) is getattr(FlatEnv, name)
        for name in ("is_actor_done", "get_actor_rewards")
    )


def _structured_buffers(
    n_envs: int, structured_spaces: StructuredSpaces
) -> tuple[dict[PolicyKey, _KeyRows], np.ndarray, np.ndarray]:
    counts = structured_spaces.agent_counts
    tables = {key: _KeyRows(n_envs, space, counts[key]) for key, space in structured_spaces.observation.items()}
    return tables, np.zeros(n_envs, np.float32), np.zeros((4, n_envs), np.bool_)


def action_rows(space: spaces.Dict, actions: ArrayDict) -> list[dict[str, Any]]:
    """Batched actions as one dict an environment: Python integers for Discrete heads, arrays of their own else.

    Rows are views of a copy, so an environment that changes its action changes no one else's array.
    """
    columns = []
    for head, leaf in space.spaces.items():
        array = np.asarray(actions[head])
        columns.append(array.tolist() if isinstance(leaf, spaces.Discrete) else list(array.copy()))
    names = tuple(space.spaces)
    if len(names) == 1:
        (name,) = names
        return [{name: value} for value in columns[0]]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
