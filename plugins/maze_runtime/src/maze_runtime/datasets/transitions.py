"""Recorded episodes of flat environments as transitions, ready for a replay buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import RequestError
from maze_runtime.datasets.contract import Episode


@attrs.frozen(kw_only=True)
class RecordedTransitions:
    """Steps of flat environments, ready for a replay buffer; row i of everything is one step.

    Attributes:
        observation, next_observation: arrays (n, …); of the last step of an episode its final observation.
        action: arrays (n, …).
        reward: (n,) float32.
        terminated, truncated: (n,) bool. The last step of an episode that was cut off counts as truncated.
        episode: (n,) int64, which episode of the dataset.
    """

    observation: ArrayDict
    action: ArrayDict
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_observation: ArrayDict
    episode: np.ndarray

    def __len__(self) -> int:
        return len(self.reward)


def flat_transitions(episode: Episode, number: int = 0) -> RecordedTransitions:
    """The steps of one episode of a flat environment; without those whose next observation was not recorded.

    Raises:
        RequestError: the environment is structured, or only its actions were recorded.
    """
    if len(episode.policy_keys) != 1 or not episode.flat_step_end.all():
        raise RequestError(
            "the episodes are not those of a flat environment, so they have no plain transitions",
            received=f"policy keys {', '.join(map(repr, episode.policy_keys))}",
            help="read their arrays by policy key",
        )
    (key,) = episode.policy_keys
    if len(episode) and key not in episode.observation:
        raise RequestError("only actions were recorded, so there are no transitions", help="replay it, and record that")
    has_final = episode.final_key is not None
    n = len(episode) if has_final else max(len(episode) - 1, 0)
    observation = {name: array[:n] for name, array in episode.observation[key].items()}
    following = {
        name: np.concatenate([array[1:], episode.final_observation[name][None]]) if has_final else array[1:]
        for name, array in episode.observation[key].items()
    }
    truncated = episode.truncated[:n].copy()
    if n:
        truncated[-1] |= not episode.terminated[n - 1]
    return RecordedTransitions(
        observation=observation,
        action={name: array[:n] for name, array in episode.action[key].items()},
        reward=episode.reward[:n].astype(np.float32),
        terminated=episode.terminated[:n],
        truncated=truncated,
        next_observation=following,
        episode=np.full(n, number, np.int64),
    )


def concatenate(parts: Sequence[RecordedTransitions]) -> RecordedTransitions:
    """All steps in one; at least one part."""
    columns: dict[str, Any] = {}
    for field in attrs.fields(RecordedTransitions):
        values = [getattr(part, field.name) for part in parts]
        if isinstance(values[0], dict):
            columns[field.name] = {name: np.concatenate([value[name] for value in values]) for name in values[0]}
        else:
            columns[field.name] = np.concatenate(values)
    return RecordedTransitions(**columns)
