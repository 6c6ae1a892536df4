"""N-step transitions against sums taken one at a time, and what a buffer forgets when it is restored."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.vector import FinalObservation, Group, Tick
from maze_replay.collector import TransitionCollector
from maze_replay.prioritized import PrioritizedReplayBuffer
from maze_replay.replay import ReplayBuffer

GAMMA = 0.9
OBSERVATION, ACTION = spaces.Dict(x=spaces.Box(0, 1e6, (1,), np.float64)), spaces.Dict(a=spaces.Discrete(9))


class Numbered:
    """Two environments whose observations are unique numbers; episodes end as a script says."""

    n_envs = 2

    def __init__(self, seed):
        self.structured_spaces = StructuredSpaces(observation={"0": OBSERVATION}, action={"0": ACTION})
        self._rng = np.random.default_rng(seed)
        self._next = 0
        self.log = []  # (environment, observation, action, reward, next observation, terminated, truncated)

    def _fresh(self, n):
        self._next += n
        return np.arange(self._next - n, self._next, dtype=np.float64)[:, None]

    def _tick(self, reward, terminated, truncated):
        return Tick({"0": Group(np.arange(2), np.zeros(2, np.int64), {"x": self._seen})}, reward, terminated, truncated)

    def reset(self, seeds):
        self._seen = self._fresh(2)
        return self._tick(np.zeros(2, np.float32), np.zeros(2, bool), np.zeros(2, bool))

    def step(self, actions):
        before, following = self._seen, self._fresh(2)
        reward = self._rng.integers(1, 9, 2).astype(np.float32)
        terminated, truncated = self._rng.random((2, 2)) < 0.15
        for env in range(2):
            row = env, before[env, 0], actions["0"]["a"][env], reward[env], following[env, 0]
            self.log.append((*row, terminated[env], truncated[env]))
        ended = np.flatnonzero(terminated | truncated)
        self._seen = following.copy()
        self._seen[ended] = self._fresh(len(ended))
        tick = self._tick(reward, terminated, truncated)
        if len(ended):
            tick.final_observation["0"] = FinalObservation(ended, {"x": following[ended]})
        return tick

    def close(self):
        pass


class Counting:
    """Actions 0, 1, 2, … so that transitions can be told apart."""

    def __init__(self):
        self._n = 0

    def act(self, policy_key, group, *, deterministic=False):
        self._n += 1
        return {"a": np.full(len(group.env_index), self._n % 9)}

    def begin_episodes(self, env_index):
        pass


def slow(log, n_steps):
    """Observation to (reward, discount, observation that bootstraps), from the definition."""
    expected = {}
    for env in range(2):
        rows = [row for row in log if row[0] == env]
        for i, row in enumerate(rows):
            reward, discount, following = 0.0, 1.0, None
            for _, _, _, r, after, terminated, truncated in rows[i : i + n_steps]:
                reward, discount, following = reward + discount * r, discount * GAMMA, after
                if terminated or truncated:
                    discount = 0.0 if terminated else discount
                    break
            expected[row[1]] = (reward, discount, following)
    return expected


@pytest.mark.parametrize("size", [2000, 64])
@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_n_step_transitions_equal_their_definition(n_steps, size):
    envs = Numbered(seed=n_steps)
    collector = TransitionCollector(envs, gamma=GAMMA, size=size)
    collector.reset([[0], [1]])
    assert collector.collect(Counting(), 300) == 600
    expected = slow(envs.log, n_steps)
    drawn = collector.replay["0"].sample(4000, np.random.default_rng(0), n_steps=n_steps)
    assert len(np.unique(drawn.observation["x"])) > min(size, 600) * 0.7
    rows = zip(drawn.observation["x"], drawn.reward, drawn.discount, drawn.next_observation["x"], strict=True)
    newest = {max(row[1] for row in envs.log if row[0] == env) for env in range(2)}
    for (observation,), reward, discount, (following,) in rows:
        wanted = expected[observation]
        assert reward == pytest.approx(wanted[0], rel=1e-5)
        assert discount == pytest.approx(wanted[1], rel=1e-5)
        if discount:
            assert following == wanted[2] or observation in newest


@pytest.mark.parametrize("size", [2000, 64])
@pytest.mark.parametrize("make_replay", [ReplayBuffer, PrioritizedReplayBuffer])
def test_ticks_without_an_end_are_stored_at_once_as_one_by_one(monkeypatch, make_replay, size):
    stored = []
    for at_once in (True, False):
        if not at_once:
            monkeypatch.setattr("maze_replay.collector._all_go_on", lambda tick: False)
        collector = TransitionCollector(Numbered(seed=4), gamma=GAMMA, size=size, make_replay=make_replay)
        collector.reset([[0], [1]])
        collector.collect(Counting(), 300)
        collector.reset([[0], [1]])
        collector.collect(Counting(), 10)
        stored.append(collector.replay["0"])
    fast, slow = (replay.state_dict() for replay in stored)
    assert stored[0].n_transitions == stored[1].n_transitions
    for name, column in slow.pop("columns").items():
        np.testing.assert_array_equal(fast["columns"][name], column)
    for name, positions in slow.items():
        np.testing.assert_array_equal(fast[name], positions)


def test_a_buffer_that_was_used_holds_what_is_restored_and_nothing_else():
    short, long = (TransitionCollector(Numbered(seed=3), gamma=GAMMA, size=2000) for _ in range(2))
    for collector, n_ticks in ((short, 20), (long, 300)):
        collector.reset([[0], [1]])
        collector.collect(Counting(), n_ticks)
    one, other = short.replay["0"], long.replay["0"]
    other.load_state_dict(one.state_dict())
    assert other.n_transitions == one.n_transitions == 40
    drawn = [buffer.sample(500, np.random.default_rng(5)).columns() for buffer in (one, other)]
    for name, array in drawn[0].items():
        np.testing.assert_array_equal(array, drawn[1][name])
