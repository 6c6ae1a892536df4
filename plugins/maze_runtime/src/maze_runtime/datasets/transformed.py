"""Recorded episodes as a policy outside of transforms would have seen them and acted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from maze_kernel.contracts.env import ActorID, PolicyKey
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.datasets.contract import Episode
from maze_runtime.env.episode_transform import EpisodeTransform


def outer_actions(episode: Episode, transforms: Sequence[Transform]) -> dict[PolicyKey, ArrayDict]:
    """The actions a policy outside of these transforms would have taken, rows as in `Episode.action`.

    Raises:
        EnvError: a transform changes actions and does not say how a recorded one maps back.
    """
    action = {key: dict(arrays) for key, arrays in episode.action.items()}
    for transform in transforms:
        action = {key: transform.reverse_action(key, arrays) for key, arrays in action.items()}
    return action


def transformed(episode: Episode, transforms: Sequence[Transform]) -> Episode:
    """The episode as a policy outside of these transforms would have seen it and acted; rewards stay.

    Args:
        transforms: bound to the spaces of the episode, innermost first.

    Raises:
        EnvError: see `outer_actions`.
    """
    action = outer_actions(episode, transforms)
    if any(transform.memory(1) is not None for transform in transforms):
        observation, final = _in_order(episode, transforms, action)
    else:
        observation = {key: dict(arrays) for key, arrays in episode.observation.items()}
        final = {name: array[None] for name, array in episode.final_observation.items()}
        for transform in transforms:
            observation = {key: transform.observation(key, arrays) for key, arrays in observation.items()}
            if episode.final_key is not None:
                final = transform.observation(episode.final_key, final)
        final = {name: array[0] for name, array in final.items()}
    return attrs.evolve(episode, observation=observation, action=action, final_observation=final)


def _in_order(
    episode: Episode, transforms: Sequence[Transform], action: Mapping[PolicyKey, ArrayDict]
) -> tuple[dict[PolicyKey, ArrayDict], ArrayDict]:
    """Observations through transforms that remember earlier ones, and the final one."""
    walk = EpisodeTransform(transforms)
    rows: dict[PolicyKey, list[ArrayDict]] = {key: [] for key in episode.observation}
    acted = None
    for t in range(len(episode)):
        key = episode.policy_keys[episode.key_index[t]]
        row, actor = len(rows[key]), ActorID(key, int(episode.agent_id[t]))
        rows[key].append(walk.observation(actor, _row(episode.observation[key], row), acted))
        acted = key, _row(action[key], row)
    final: ArrayDict = {}
    if episode.final_key is not None:
        last = ActorID(episode.final_key, episode.final_agent or 0)
        final = walk.observation(last, episode.final_observation, acted)
    return {key: _stacked(seen) for key, seen in rows.items()}, final


def _row(arrays: ArrayDict, row: int) -> ArrayDict:
    return {name: array[row] for name, array in arrays.items()}


def _stacked(rows: Sequence[ArrayDict]) -> ArrayDict:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
