"""Recorded episodes as transitions of every actor: their decisions run through `ActorSeries` as those of play do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict, FinalObservation, Group
from maze_replay.replay import ReplayBuffer
from maze_replay.series import ActorSeries
from maze_runtime.datasets.contract import Episode

_ENV = np.zeros(1, np.int64)


def add_episodes(
    episodes: Sequence[Episode],
    replay: Mapping[PolicyKey, ReplayBuffer],
    n_agents: Mapping[PolicyKey, int],
    gamma: float,
) -> None:
    """Store every decision whose successor was recorded, in the rings of the first environment.

    Rewards and discounts between two decisions of an actor are summed up as `ActorSeries` says, of the rewards in
    `Episode.actor_reward` where a flat step divided its reward otherwise. A truncated episode bootstraps for the actor
    who would decide next; the last decisions of the others have no successor and are left out.

    Args:
        episodes: of the training environment, outside of its transforms.
        replay: policy key to a buffer whose first `n_agents` rings are free or may be overwritten.
        n_agents: policy key to agents.
        gamma: discount of a flat step.
    """
    series = {key: ActorSeries(replay[key], 1, n_agents[key]) for key in replay}
    for episode in filter(len, episodes):
        _play(episode, series, n_agents, gamma)
        for own in series.values():
            own.begin_episodes()


def rows_needed(episodes: Sequence[Episode], n_agents: Mapping[PolicyKey, int]) -> dict[PolicyKey, int]:
    """Rows of the longest ring of each policy key that `add_episodes` fills, at most."""
    needed = {}
    for key, count in n_agents.items():
        rows = np.zeros(count, np.int64)
        for episode in episodes:
            n_decisions = np.bincount(episode.agent_id[episode.decisions_of(key)], minlength=count)
            rows += n_decisions + (n_decisions > 0)
        needed[key] = int(rows.max())
    return needed


def _play(
    episode: Episode, series: Mapping[PolicyKey, ActorSeries], n_agents: Mapping[PolicyKey, int], gamma: float
) -> None:
    rewards = episode.reward if episode.actor_reward is None else episode.actor_reward
    discounts = np.where(episode.flat_step_end, gamma, 1.0)
    n_decisions = dict.fromkeys(series, 0)
    sub_step = np.zeros(1, np.int64)
    for t in range(len(episode)):
        key = episode.policy_keys[episode.key_index[t]]
        row, agent = n_decisions[key], episode.agent_id[t : t + 1]
        group = Group(_ENV, agent, _row(episode.observation[key], row))
        series[key].arrive(group, sub_step)
        series[key].decide(group, _row(episode.action[key], row), None, sub_step)
        n_decisions[key] = row + 1
        for own in series.values():
            own.pass_time(rewards[t : t + 1], discounts[t : t + 1])
        if episode.actor_done[t]:
            series[key].leave(group, episode.actor_done[t : t + 1], sub_step)
    _end(episode, series, n_agents)


def _end(episode: Episode, series: Mapping[PolicyKey, ActorSeries], n_agents: Mapping[PolicyKey, int]) -> None:
    terminated = episode.terminated[-1:].copy()
    for key, own in series.items():
        final, agent = None, _final_agent(episode, n_agents)
        if key == episode.final_key and agent is not None:
            observation = {name: array[None] for name, array in episode.final_observation.items()}
            final = FinalObservation(_ENV, observation, np.array([agent]))
        own.end_episodes(terminated, ~terminated, final)


def _final_agent(episode: Episode, n_agents: Mapping[PolicyKey, int]) -> int | None:
    """Who sees the final observation; None where several agents might, and the recording does not say which."""
    if episode.final_agent is not None or episode.final_key is None:
        return episode.final_agent
    return 0 if n_agents[episode.final_key] == 1 else None


def _row(arrays: ArrayDict, row: int) -> ArrayDict:
    return {name: array[row : row + 1] for name, array in arrays.items()}
