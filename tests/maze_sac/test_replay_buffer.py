"""The replay buffer against a plain list of transitions, over wrap-around, both kinds of ends, resets and void rows."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.env.contract import flat_spaces
from maze_kernel.rollout.buffer import RolloutBuffer
from maze_sac.replay import ReplayBuffer

SPACES = flat_spaces(
    spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (2,), np.float32)}), spaces.Dict({"a": spaces.Discrete(1000)})
)


class Stream:
    """Fills rollouts with numbered observations and keeps the transitions as a list, the slow way."""

    def __init__(self, n_envs, n_steps, seed=0):
        self.rng = np.random.default_rng(seed)
        self.rollout = RolloutBuffer(SPACES, "0", n_steps, n_envs)
        self.now = np.zeros(n_envs)
        self.count = 0
        self.expected = {}
        self.waiting = np.zeros(n_envs, bool)
        self.begin()

    def number(self):
        self.count += 1
        return float(self.count)

    def begin(self):
        self.now = np.array([self.number() for _ in self.now])
        self.waiting[:] = False

    def next_rollout(self, *, void_resets=False):
        rollout = self.rollout
        rollout.truncations.clear()
        rollout.void.fill(False)
        for t in range(rollout.n_steps):
            rollout.observation["x"][t] = self.now[:, None]
            rollout.void[t] = self.waiting
            cut = []
            for n in range(rollout.n_envs):
                self._step(t, n, cut, void_resets)
            if cut:
                index = np.array([n for n, _ in cut])
                final = np.array([[value, value] for _, value in cut], np.float32)
                rollout.add_truncation(t, index, {"x": final})
        rollout.last_observation["x"][:] = self.now[:, None]
        return rollout

    def _step(self, t, n, cut, void_resets):
        rollout, taken = self.rollout, self.now[n]
        rollout.terminated[t, n] = rollout.truncated[t, n] = False
        if self.waiting[n]:
            self.now[n], self.waiting[n] = self.number(), False
            return
        ending = self.rng.choice(["goes on", "terminated", "truncated"], p=[0.6, 0.2, 0.2])
        action, reward, following = int(taken) % 1000, -taken, self.number()
        rollout.action["a"][t, n], rollout.reward[t, n] = action, reward
        rollout.terminated[t, n], rollout.truncated[t, n] = ending == "terminated", ending == "truncated"
        self.expected[taken] = (action, reward, None if ending == "terminated" else following)
        self.now[n] = following
        if ending == "truncated":
            cut.append((n, following))
        if ending != "goes on":
            self.now[n] = self.number()
            self.waiting[n] = void_resets


def check(buffer, stream, rng):
    """Every drawn transition is one of the stream's; returns the observations drawn."""
    batch = buffer.sample(512, rng)
    drawn = batch.observation["x"][:, 0]
    for i, observation in enumerate(drawn):
        action, reward, following = stream.expected[float(observation)]
        assert batch.action["a"][i] == action
        assert batch.reward[i] == reward
        assert batch.terminated[i] == (following is None)
        if following is not None:
            assert batch.next_observation["x"][i].tolist() == [following, following]
    return set(drawn.tolist())


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n_steps", [1, 4])
@pytest.mark.parametrize("void_resets", [False, True])
def test_drawn_transitions_are_those_that_happened(n_envs, n_steps, void_resets):
    stream, rng = Stream(n_envs, n_steps), np.random.default_rng(1)
    buffer = ReplayBuffer(SPACES, "0", n_envs, 20 * n_envs)
    for i in range(60):
        stored = buffer.add(stream.next_rollout(void_resets=void_resets))
        assert stored == n_envs * n_steps - int(stream.rollout.void.sum())
        if buffer.n_transitions:
            check(buffer, stream, rng)
        if i % 7 == 6:
            stream.begin()
            buffer.begin_episodes()


def test_before_it_is_full_every_transition_can_be_drawn():
    stream, rng = Stream(2, 4), np.random.default_rng(1)
    buffer = ReplayBuffer(SPACES, "0", 2, 1000)
    for _ in range(5):
        buffer.add(stream.next_rollout())
    assert buffer.n_transitions == len(stream.expected) == 40
    drawn = set().union(*(check(buffer, stream, rng) for _ in range(3)))
    assert drawn == set(stream.expected)


def test_when_full_the_oldest_are_gone_and_the_newest_there():
    stream, rng = Stream(1, 1), np.random.default_rng(1)
    buffer = ReplayBuffer(SPACES, "0", 1, 16)
    for _ in range(100):
        buffer.add(stream.next_rollout())
    drawn = check(buffer, stream, rng)
    newest = sorted(stream.expected)[-buffer.n_transitions :]
    assert drawn == set(newest)
    assert 8 <= buffer.n_transitions <= 15


def test_transitions_are_drawn_uniformly():
    stream = Stream(2, 50)
    buffer = ReplayBuffer(SPACES, "0", 2, 1000)
    buffer.add(stream.next_rollout())
    draws = buffer.sample(100_000, np.random.default_rng(0)).observation["x"][:, 0]
    _, counts = np.unique(draws, return_counts=True)
    assert len(counts) == 100
    assert 800 < counts.min() <= counts.max() < 1200


@pytest.mark.parametrize("n_rollouts", [3, 40])
def test_a_restored_buffer_draws_and_stores_the_same(n_rollouts):
    streams = [Stream(2, 3), Stream(2, 3)]
    first, second = (ReplayBuffer(SPACES, "0", 2, 64) for _ in range(2))
    for _ in range(n_rollouts):
        first.add(streams[0].next_rollout())
        streams[1].next_rollout()
    second.load_state_dict(first.state_dict())
    for buffer, stream in zip((first, second), streams, strict=True):
        stream.begin()
        buffer.begin_episodes()
        buffer.add(stream.next_rollout())
    one, other = (buffer.sample(200, np.random.default_rng(3)) for buffer in (first, second))
    assert np.array_equal(one.observation["x"], other.observation["x"])
    assert np.array_equal(one.next_observation["x"], other.next_observation["x"])


def test_a_checkpoint_holds_the_filled_rows_only():
    stream, buffer = Stream(1, 5), ReplayBuffer(SPACES, "0", 1, 100_000)
    buffer.add(stream.next_rollout())
    assert buffer.state_dict()["columns"]["observation.x"].shape[1] <= 12
