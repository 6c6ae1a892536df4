"""Episodes of flat environments, made from the arrays of their steps, and a source of episodes that are in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_kernel.contracts.env import FLAT_KEY, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.datasets.contract import Episode, EpisodeInfo


def flat_episode(
    *,
    episode_id: str,
    observation: ArrayDict,
    action: ArrayDict,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    seed: int | None = None,
    policy: str = "",
) -> Episode:
    """An episode of a flat environment, from the arrays of its T steps.

    Args:
        episode_id: names the episode, unique.
        observation: name to (T + 1, …); the last row is what was seen after the last step.
        action: name to (T, …).
        reward: (T,).
        terminated, truncated: (T,) bool.
        seed: of the environment's `reset`.
        policy: who played, as text.
    """
    n = len(reward)
    reward = np.asarray(reward, np.float64)
    return Episode(
        info=EpisodeInfo(
            episode_id=episode_id,
            seed=seed,
            n_decisions=n,
            n_env_steps=n,
            total_reward=float(reward.sum()),
            terminated=bool(terminated[-1:].any()),
            truncated=bool(truncated[-1:].any()),
            policy=policy,
        ),
        policy_keys=(FLAT_KEY,),
        key_index=np.zeros(n, np.int64),
        agent_id=np.zeros(n, np.int64),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        flat_step_end=np.ones(n, np.bool_),
        actor_done=np.zeros(n, np.bool_),
        actor_reward=None,
        observation={FLAT_KEY: {name: array[:n] for name, array in observation.items()}},
        action={FLAT_KEY: action},
        final_key=FLAT_KEY,
        final_observation={name: array[n] for name, array in observation.items()},
        final_agent=0,
    )


class EpisodeList:
    """Implements `EpisodeSource` with episodes that are in memory.

    Args:
        name: what messages call the source.
        spaces: of the environment that the episodes are of.
        episodes: all of them.
    """

    def __init__(self, name: str, spaces: StructuredSpaces, episodes: Sequence[Episode]) -> None:
        self.name = name
        self.spaces = spaces
        self.episodes = tuple(episodes)
        self.lengths = tuple(map(len, self.episodes))

    def infos(self) -> list[EpisodeInfo]:
        """Identifiers and sums of all episodes."""
        return [episode.info for episode in self.episodes]

    def expect(self, episodes: Sequence[int]) -> None:
        """Nothing is read ahead."""

    def read(self, index: int) -> Episode:
        """One episode."""
        return self.episodes[index]

    def close(self) -> None:
        """Nothing is held."""
