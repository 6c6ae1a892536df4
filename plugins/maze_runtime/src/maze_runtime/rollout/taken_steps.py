"""A stored rollout as the steps that were taken: for who learns from ticks and gets rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from maze_kernel.contracts.env import ActorID, PolicyKey
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, TakenStep, Tick
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.structured_buffer import StructuredBuffer


def ticks_of(buffer: RolloutBuffer | StructuredBuffer) -> Iterator[TakenStep]:
    """The steps of a rollout, in order of time; their arrays are views of the buffer's where they can be.

    Ticks are those that a batch gave, but for what no rollout stores: infos, the final observations of episodes that
    terminated, and `awaiting_reset`, in the place of which each step has `void`.
    """
    finals = _finals(buffer)
    rows = _structured_groups(buffer) if isinstance(buffer, StructuredBuffer) else _flat_groups(buffer)
    groups, actions = next(rows)
    for step in range(buffer.n_steps):
        following, following_actions = next(rows)
        tick = _tick(buffer, step, following, finals.get(step, {}))
        void = buffer.void[step]
        yield TakenStep(groups, actions, void if void.any() else None, tick)
        groups, actions = following, following_actions


_Rows = Iterator[tuple[dict[PolicyKey, Group], dict[PolicyKey, ArrayDict]]]


def _flat_groups(buffer: RolloutBuffer) -> _Rows:
    """Groups and actions of each step, and the groups behind the last one."""
    key, index, agents = buffer.policy_key, np.arange(buffer.n_envs), np.zeros(buffer.n_envs, np.int64)
    for step in range(buffer.n_steps):
        observation = {name: array[step] for name, array in buffer.observation.items()}
        action = {name: array[step] for name, array in buffer.action.items()}
        yield {key: Group(index, agents, observation)}, {key: action}
    yield {key: Group(index, agents, dict(buffer.last_observation))}, {}


def _structured_groups(buffer: StructuredBuffer) -> _Rows:
    for step in range(buffer.n_steps):
        groups, actions = {}, {}
        for n_own, key, who in _by_key(buffer.policy_keys, buffer.key_index[step]):
            rows, table = buffer.row[step, who], buffer.tables[key]
            observation, action = (
                {name: array[rows] for name, array in part.items()} for part in (table.observation, table.action)
            )
            groups[key] = Group(who, buffer.agent_id[step, who], observation, n_own == buffer.n_envs)
            actions[key] = action
        yield groups, actions
    last = {}
    for n_own, key, who in _by_key(buffer.policy_keys, buffer.last_key_index):
        observation = {name: array[who] for name, array in buffer.last_observation[key].items()}
        last[key] = Group(who, buffer.last_agent_id[who], observation, n_own == buffer.n_envs)
    yield last, {}


def _by_key(keys: Sequence[PolicyKey], key_index: np.ndarray) -> Iterator[tuple[int, PolicyKey, np.ndarray]]:
    """(n, policy key, env index (n,)) of those that decide."""
    for number, key in enumerate(keys):
        who = np.flatnonzero(key_index == number)
        if len(who):
            yield len(who), key, who


def _tick(
    buffer: RolloutBuffer | StructuredBuffer,
    step: int,
    groups: dict[PolicyKey, Group],
    finals: dict[PolicyKey, FinalObservation],
) -> Tick:
    tick = Tick(groups, buffer.reward[step], buffer.terminated[step], buffer.truncated[step], final_observation=finals)
    if isinstance(buffer, StructuredBuffer):
        tick.flat_step_end = buffer.flat_step_end[step]
        tick.actor_done = buffer.actor_done[step]
        tick.actor_rewards = {env: rewards for t, env, rewards in buffer.actor_rewards if t == step}
        for departure in buffer.departures:
            if departure.step == step:
                actor = ActorID(buffer.policy_keys[departure.key_index], departure.agent_id)
                tick.departed[departure.env_index] = (*tick.departed.get(departure.env_index, ()), actor)
    return tick


def _finals(buffer: RolloutBuffer | StructuredBuffer) -> dict[int, dict[PolicyKey, FinalObservation]]:
    """Final observations of truncated episodes, by step and policy key."""
    parts: dict[tuple[int, PolicyKey], list[FinalObservation]] = {}
    if isinstance(buffer, StructuredBuffer):
        for step, index, finals in buffer.truncations:
            final = FinalObservation(index, finals.observation, finals.agent_id)
            parts.setdefault((step, finals.policy_key), []).append(final)
    else:
        for step, index, observation in buffer.truncations:
            parts.setdefault((step, buffer.policy_key), []).append(FinalObservation(index, observation))
    found: dict[int, dict[PolicyKey, FinalObservation]] = {}
    for (step, key), own in parts.items():
        found.setdefault(step, {})[key] = _joined(own)
    return found


def _joined(parts: Sequence[FinalObservation]) -> FinalObservation:
    if len(parts) == 1:
        return parts[0]
    index = np.concatenate([part.env_index for part in parts])
    observation = {name: np.concatenate([part.observation[name] for part in parts]) for name in parts[0].observation}
    agents = [part.agent_id for part in parts if part.agent_id is not None]
    return FinalObservation(index, observation, np.concatenate(agents) if agents else None)
