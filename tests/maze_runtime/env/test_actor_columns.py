"""What is kept of each agent takes room by how many there are, not by their numbers."""

import numpy as np
import pytest

from maze_runtime.env.actor_columns import ActorColumns
from maze_runtime.models.recurrence import ActingStates

MILLIONS = 5_000_000


def test_low_numbers_are_their_own_columns():
    agents = np.array([0, 3, 15])
    assert ActorColumns().of(np.zeros(3, np.int64), agents) is agents


def test_high_numbers_get_the_columns_behind_as_they_come():
    columns, envs = ActorColumns(), np.array([0, 0, 0, 1])
    agents = np.array([MILLIONS, 2, 2 * MILLIONS, MILLIONS])
    first = columns.of(envs, agents)
    assert len({(env, column) for env, column in zip(envs, first, strict=True)}) == 4
    assert first[1] == 2
    assert first.max() < 30
    assert columns.of(envs[::-1], agents[::-1]).tolist() == first[::-1].tolist()
    assert agents.tolist() == [MILLIONS, 2, 2 * MILLIONS, MILLIONS]


def test_an_episodes_columns_are_free_for_the_next_ones():
    columns = ActorColumns()
    envs = np.zeros(2, np.int64)
    widest = 0
    for episode in range(50):
        widest = max(widest, columns.of(envs, np.array([1, 2]) + MILLIONS + 10 * episode).max())
        columns.forget(np.array([0]))
    assert widest < 30
    columns.of(envs, np.array([1, 2]) + MILLIONS)
    columns.forget()
    assert len(columns.to_array()) == 0


@pytest.mark.parametrize("first", [0, 14, MILLIONS])
def test_states_of_agents_are_theirs_however_they_are_numbered(first):
    rng, states = np.random.default_rng(0), ActingStates({"state/memory": (2,)})
    expected = np.zeros((3, 4, 2), np.float32)
    for step in range(60):
        env_index, agents = (index.reshape(-1) for index in np.meshgrid(np.arange(3), np.arange(4), indexing="ij"))
        who = rng.permutation(12)[: rng.integers(1, 13)]
        env_index, agents = env_index[who], agents[who]
        read = states.read(env_index, first + agents)["state/memory"]
        np.testing.assert_array_equal(read, expected[env_index, agents])
        expected[env_index, agents] += 1 + agents[:, None]
        states.write(env_index, first + agents, {"state/memory": read + 1 + agents[:, None]})
        if step % 7 == 6:
            begun = np.array([step % 3])
            states.clear(begun)
            expected[begun] = 0
        if step % 5 == 4:
            saved, states = states.state_dict(), ActingStates({"state/memory": (2,)})
            states.load_state_dict(saved)
    assert states.state_dict()["state/memory"].shape[1] < 40
