"""Decisions of all policy keys as those of one actor: what a critic learns from that all keys share.

The decisions of an environment are one series then: a transition runs to the next decision, whoever takes it. Beside
what the one who decides sees stands what others saw and did earlier in the same flat step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, TakenStep
from maze_replay.drawing import Only
from maze_runtime.datasets.contract import Episode
from maze_runtime.models.shared_action_values import joined_names, joined_space

ALL = "all"
"""The policy key of the joined decisions."""

WHO = "@who"
"""Column: the number of the policy key that decides."""

SEEN = "@seen"
"""Column (C,): which observations somebody saw in this flat step."""

ACTED = "@acted"
"""Column (K,): which policy keys have decided in this flat step."""


class Context(NamedTuple):
    """What a flat step was like when a decision was taken; B rows.

    Attributes:
        saw: every joined observation, the newest one of the flat step.
        seen: (B, C) int8, which of them there was.
        did: policy key to the action it took last in it, by head.
        acted: (B, K) int8, which of the keys took one.
    """

    saw: ArrayDict
    seen: np.ndarray
    did: dict[PolicyKey, ArrayDict]
    acted: np.ndarray


class JointKeys:
    """Joins what policy keys see and do, and takes it apart again.

    Args:
        structured: spaces of the environment.
        n_envs: of the batch whose steps are joined.

    Attributes:
        keys: its policy keys; their numbers are places in it.
        spaces: of the joined decisions: one policy key with one agent.
    """

    def __init__(self, structured: StructuredSpaces, n_envs: int) -> None:
        self.keys = structured.policy_keys
        self._n_envs = n_envs
        self._seen_names = joined_names(structured.observation)
        self._observation = joined_space(structured.observation)
        self._place = {name: place for place, name in enumerate(self._observation)}
        self._heads = {key: {head: f"{head}@{key}" for head in own} for key, own in structured.action.items()}
        self._action = {
            name: structured.action[key][head] for key, own in self._heads.items() for head, name in own.items()
        }
        columns = {
            **self._observation,
            **{_did(name): space for name, space in self._action.items()},
            WHO: spaces.Discrete(len(self.keys)),
            SEEN: spaces.MultiBinary(len(self._observation)),
            ACTED: spaces.MultiBinary(len(self.keys)),
        }
        self.spaces = StructuredSpaces(
            observation={ALL: spaces.Dict(columns)}, action={ALL: spaces.Dict(self._action)}, agent_counts={ALL: 1}
        )
        self._walk = self._new_walk(n_envs)
        self._last: Group | None = None

    def begin_episodes(self) -> None:
        """Episodes begin everywhere."""
        self._walk.forget(np.arange(self._n_envs))
        self._last = None

    def step(self, step: TakenStep) -> TakenStep:
        """The next step of the batch; actors do not leave one by one."""
        tick, walk = step.tick, self._walk
        before = self._last
        if step.restarted is not None:
            walk.forget(step.restarted)
        if before is None or step.restarted is not None:
            before = self._group(step.groups)
        for key, group in step.groups.items():
            walk.act(key, group.env_index, step.actions[key])
        actions = {name: walk.columns[_did(name)].copy() for name in self._action}
        flat_step_end = tick.flat_step_end
        walk.forget(np.arange(self._n_envs) if flat_step_end is None else np.flatnonzero(flat_step_end))
        finals = {ALL: self._final(tick.final_observation)} if tick.final_observation else {}
        walk.forget(np.flatnonzero(tick.terminated | tick.truncated))
        after = self._last = self._group(tick.groups)
        joined = attrs.evolve(tick, groups={ALL: after}, actor_done=None, departed={}, final_observation=finals)
        return step._replace(groups={ALL: before}, actions={ALL: actions}, tick=joined)

    def episode(self, episode: Episode) -> Episode:
        """A recorded episode."""
        walk, row = self._new_walk(1), np.zeros(1, np.int64)
        n_rows = dict.fromkeys(episode.action, 0)
        observations, actions = [], []
        for t in range(len(episode)):
            key = episode.policy_keys[episode.key_index[t]]
            at = slice(n_rows[key], n_rows[key] + 1)
            n_rows[key] += 1
            walk.see(key, row, {name: array[at] for name, array in episode.observation[key].items()})
            observations.append({name: array[0].copy() for name, array in walk.columns.items()})
            walk.act(key, row, {name: array[at] for name, array in episode.action[key].items()})
            actions.append({name: walk.columns[_did(name)][0].copy() for name in self._action})
            if episode.flat_step_end[t]:
                walk.forget(row)
        if episode.final_key is not None:
            walk.see(episode.final_key, row, {name: array[None] for name, array in episode.final_observation.items()})
        n_decisions = len(episode)
        return attrs.evolve(
            episode,
            policy_keys=(ALL,),
            key_index=np.zeros(n_decisions, np.int64),
            agent_id=np.zeros(n_decisions, np.int64),
            actor_done=np.zeros(n_decisions, bool),
            left_after=None,
            observation={ALL: {name: np.stack([own[name] for own in observations]) for name in walk.columns}},
            action={ALL: {name: np.stack([own[name] for own in actions]) for name in self._action}},
            final_key=None if episode.final_key is None else ALL,
            final_observation={name: array[0].copy() for name, array in walk.columns.items()},
            final_agent=0,
        )

    def only(self, key: PolicyKey) -> Only:
        """What draws the decisions of one policy key."""
        return WHO, self.keys.index(key)

    def observation_of(self, key: PolicyKey, columns: ArrayDict) -> ArrayDict:
        """What a policy key sees, by its own names; of joined observations in which it decides."""
        return {name: columns[joined] for name, joined in self._seen_names[key].items()}

    def action_of(self, key: PolicyKey, columns: ArrayDict) -> ArrayDict:
        """What it did, by head."""
        return {head: columns[name] for head, name in self._heads[key].items()}

    def context(self, columns: ArrayDict) -> Context:
        """What else joined observations say."""
        return Context(
            saw={name: columns[name] for name in self._observation},
            seen=columns[SEEN],
            did={key: {head: columns[_did(name)] for head, name in own.items()} for key, own in self._heads.items()},
            acted=columns[ACTED],
        )

    def _new_walk(self, n_envs: int) -> _Walk:
        names = {
            key: {own: (name, self._place[name]) for own, name in seen.items()}
            for key, seen in self._seen_names.items()
        }
        return _Walk(self.spaces.observation[ALL], names, self._heads, n_envs)

    def _group(self, groups: Mapping[PolicyKey, Group]) -> Group:
        for key, group in groups.items():
            self._walk.see(key, group.env_index, group.observation)
        observation = {name: array.copy() for name, array in self._walk.columns.items()}
        return Group(np.arange(self._n_envs), np.zeros(self._n_envs, np.int64), observation)

    def _final(self, finals: Mapping[PolicyKey, FinalObservation]) -> FinalObservation:
        for key, final in finals.items():
            self._walk.see(key, final.env_index, final.observation)
        ended = np.sort(np.concatenate([final.env_index for final in finals.values()]))
        return FinalObservation(ended, {name: array[ended] for name, array in self._walk.columns.items()})


class _Walk:
    """The present flat step of N environments: who decides, and what was seen and done in it.

    Attributes:
        columns: the joined observation, (N, ...) by name.
    """

    def __init__(
        self,
        space: spaces.Dict,
        seen: Mapping[PolicyKey, Mapping[str, tuple[str, int]]],
        heads: Mapping[PolicyKey, Mapping[str, str]],
        n_envs: int,
    ) -> None:
        self._seen, self._heads = seen, heads
        self._number = {key: number for number, key in enumerate(seen)}
        self._absent = {name: _absent(entry) for name, entry in space.items()}
        self.columns = {name: np.repeat(value[None], n_envs, axis=0) for name, value in self._absent.items()}

    def forget(self, envs: np.ndarray) -> None:
        """A flat step begins in these environments (n,)."""
        if len(envs):
            for name, column in self.columns.items():
                column[envs] = self._absent[name]

    def see(self, key: PolicyKey, envs: np.ndarray, observation: ArrayDict) -> None:
        """A policy key is the one to decide in these environments (n,), and sees (n, ...)."""
        self.columns[WHO][envs] = self._number[key]
        for name, (joined, place) in self._seen[key].items():
            self.columns[joined][envs] = observation[name]
            self.columns[SEEN][envs, place] = 1

    def act(self, key: PolicyKey, envs: np.ndarray, action: ArrayDict) -> None:
        """It decides."""
        for head, name in self._heads[key].items():
            self.columns[_did(name)][envs] = action[head]
        self.columns[ACTED][envs, self._number[key]] = 1


def _did(column: str) -> str:
    """The observation that holds an action of the same flat step."""
    return f"@did {column}"


def _absent(space: spaces.Space[Any]) -> np.ndarray:
    """What stands where there is nothing: zero, or the first option."""
    start: Any = getattr(space, "start", 0)
    return np.broadcast_to(np.asarray(start, space.dtype), space.shape or ()).copy()
