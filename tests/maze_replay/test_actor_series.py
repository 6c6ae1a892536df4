"""The account of every actor: rewards that are divided late, and teams that grow while a flat step lasts."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.vector import Group
from maze_replay.replay import ReplayBuffer
from maze_replay.series import ActorSeries

OBSERVATION = spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (1,), np.float32)})
ACTION = spaces.Dict({"a": spaces.Discrete(1000)})


def play(agents, n_rows, n_agents):
    """One flat step in which `agents` decide in turn, divided at its end; the buffer and the account of it.

    Observation t is shown before decision t; the reward of each decision is replaced by its square.
    """
    replay = ReplayBuffer(OBSERVATION, ACTION, max(1, n_agents), n_rows)
    series = ActorSeries(replay, 1, n_agents)
    series.begin_episodes()
    sub_step, gamma = np.zeros(1, np.int64), np.ones(1)
    for t, agent in enumerate(agents):
        group = Group(np.zeros(1, np.int64), np.array([agent]), {"x": np.array([[t]], np.float32)})
        series.arrive(group, sub_step)
        series.decide(group, {"a": np.array([t])}, None, sub_step)
        if t == len(agents) - 1:
            series.correct(0, np.arange(len(agents)) ** 2.0 - np.arange(len(agents)))
        series.pass_time(np.array([float(t)]), gamma)
        sub_step += 1
    series.end_episodes(np.ones(1, bool), np.zeros(1, bool), None)
    expected = {}
    for t, agent in enumerate(agents):
        following = next((j for j in range(t + 1, len(agents)) if agents[j] == agent), len(agents))
        expected[t] = float(sum(j**2 for j in range(t, following)))
    return replay, expected


def rewards(replay):
    memory = replay._memory
    return {
        int(x): float(reward)
        for x, reward in zip(memory.observation["x"][memory.valid][:, 0], memory.reward[memory.valid], strict=True)
    }


@pytest.mark.parametrize("n_decisions", [5, 40])
def test_rewards_are_divided_right_in_a_flat_step_longer_than_the_ring(n_decisions):
    replay, expected = play([0] * n_decisions, 8, 1)
    found = rewards(replay)
    assert len(found) >= min(5, n_decisions)
    assert found == {t: expected[t] for t in found}


def test_a_team_that_grows_within_a_flat_step_keeps_its_rewards():
    agents = [0, 100, 0, 7, 100, 3, 0, 9, 3, 50, 100, 7, 7, 3]
    replay, expected = play(agents, 160, -1)
    assert replay.n_rings == 8
    assert rewards(replay) == expected
