"""Ticks of neighbouring slices of a structured batch made into one, and its actions divided among the slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group, Tick


def split_actions(
    actions: Mapping[PolicyKey, ArrayDict], groups: Mapping[PolicyKey, Group], bounds: Sequence[int]
) -> list[dict[PolicyKey, ArrayDict]]:
    """The rows of each slice: slice i is environments bounds[i] … bounds[i + 1] − 1.

    Args:
        actions: rows match `groups`, as `VectorEnv.step` takes them.
        groups: of the last tick.
        bounds: first environment of each slice, and N.
    """
    parts: list[dict[PolicyKey, ArrayDict]] = [{} for _ in bounds[1:]]
    for key, group in groups.items():
        # env_index rises, so a slice's rows are neighbours.
        cuts = np.searchsorted(group.env_index, bounds)
        for part, first, last in zip(parts, cuts, cuts[1:], strict=False):
            if last > first:
                part[key] = {name: array[first:last] for name, array in actions[key].items()}
    return parts


def merge_ticks(ticks: Sequence[Tick], bounds: Sequence[int], spaces: StructuredSpaces) -> Tick:
    """One tick of all environments from those of the slices, whose environment indices start at 0 each."""
    placed = list(zip(ticks, bounds, strict=False))
    return Tick(
        _merge_groups(placed, bounds[-1], spaces),
        np.concatenate([tick.reward for tick in ticks]),
        np.concatenate([tick.terminated for tick in ticks]),
        np.concatenate([tick.truncated for tick in ticks]),
        flat_step_end=_concatenate([tick.flat_step_end for tick in ticks]),
        actor_done=_concatenate([tick.actor_done for tick in ticks]),
        final_observation=_merge_finals(placed, spaces),
        actor_rewards={index + first: row for tick, first in placed for index, row in tick.actor_rewards.items()},
        infos={index + first: info for tick, first in placed for index, info in tick.infos.items()},
        departed={index + first: actors for tick, first in placed for index, actors in tick.departed.items()},
    )


def _merge_groups(placed: Sequence[tuple[Tick, int]], n_envs: int, spaces: StructuredSpaces) -> dict[PolicyKey, Group]:
    groups = {}
    for key in spaces.policy_keys:
        own = [(tick.groups[key], first) for tick, first in placed if key in tick.groups]
        if own:
            index = np.concatenate([group.env_index + first for group, first in own])
            agents = np.concatenate([group.agent_id for group, _ in own])
            observation = _concatenate_dicts([group.observation for group, _ in own])
            groups[key] = Group(index, agents, observation, aligned=len(index) == n_envs)
    return groups


def _merge_finals(placed: Sequence[tuple[Tick, int]], spaces: StructuredSpaces) -> dict[PolicyKey, FinalObservation]:
    finals = {}
    for key in spaces.policy_keys:
        own = [(tick.final_observation[key], first) for tick, first in placed if key in tick.final_observation]
        if own:
            index = np.concatenate([final.env_index + first for final, first in own])
            observation = _concatenate_dicts([final.observation for final, _ in own])
            finals[key] = FinalObservation(index, observation, _concatenate([final.agent_id for final, _ in own]))
    return finals


def _concatenate(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None


def _concatenate_dicts(dicts: Sequence[ArrayDict]) -> ArrayDict:
    return {name: np.concatenate([arrays[name] for arrays in dicts]) for name in dicts[0]}
