"""Recorded episodes as transitions of every actor: their decisions run through `ActorSeries` as those of play do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
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
        n_agents: policy key to agents; −1: their number changes, and the first ring takes them one behind the other.
        gamma: discount of a flat step.
    """
    fixed = {key: ActorSeries(replay[key], 1, count) for key, count in n_agents.items() if count > 0}
    for episode in filter(len, episodes):
        teams = {}
        for key, count in n_agents.items():
            if count < 0 and len(episode.decisions_of(key)):
                episode, teams[key] = _team(episode, key, replay[key])
        _play(episode, fixed | teams, n_agents, gamma)
        for own in fixed.values():
            own.begin_episodes()
        for key, team in teams.items():
            for ring in range(team.replay.n_rings):
                replay[key].add_episodes(0, *team.replay.stored(ring))


def rows_needed(episodes: Sequence[Episode], n_agents: Mapping[PolicyKey, int]) -> dict[PolicyKey, int]:
    """Rows of the longest ring of each policy key that `add_episodes` fills, at most."""
    needed = {}
    for key, count in n_agents.items():
        rows = np.zeros(max(1, count), np.int64)
        for episode in filter(len, episodes):
            agents = episode.agent_id[episode.decisions_of(key)]
            n_decisions = np.bincount(
                np.unique(agents, return_inverse=True)[1] if count < 0 else agents, minlength=max(0, count)
            )
            used = n_decisions + (n_decisions > 0)
            rows += used if count > 0 else used.sum()
        needed[key] = int(rows.max())
    return needed


def _team(episode: Episode, key: PolicyKey, replay: ReplayBuffer) -> tuple[Episode, ActorSeries]:
    """The episode with the agents of a policy key numbered from 0, and an empty series that has a ring for each."""
    where = episode.decisions_of(key)
    agents, number = np.unique(episode.agent_id[where], return_inverse=True)
    agent_id = episode.agent_id.copy()
    final: dict[str, Any] = {}
    agent_id[where] = number
    if episode.final_key == key and episode.final_agent is not None:
        known = np.flatnonzero(agents == episode.final_agent).tolist()
        final = {"final_agent": known[0]} if known else {"final_key": None}
    n_rows = int(np.bincount(number).max()) + 1 + replay.n_spare_rows
    series = ActorSeries(replay.like(len(agents), len(agents) * n_rows), 1, len(agents))
    return attrs.evolve(episode, agent_id=agent_id, **final), series


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
        if episode.left_after is not None:
            for k in np.flatnonzero(episode.left_after == t).tolist():
                series[episode.policy_keys[episode.key_index[k]]].depart(_ENV, episode.agent_id[k : k + 1], sub_step)
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
