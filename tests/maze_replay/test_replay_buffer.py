"""The replay buffer alone: rings, wrap-around, whole episodes, saving."""

import itertools

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.errors import RequestError
from maze_replay.drawing import RowDraws
from maze_replay.replay import ReplayBuffer, Transitions

OBSERVATION = spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (2,), np.float32)})
ACTION = spaces.Dict({"a": spaces.Discrete(1000)})
GAMMA = 0.9


def make_buffer(n_rings=1, size=64):
    return ReplayBuffer(OBSERVATION, ACTION, n_rings, size)


class Stream:
    """Numbered observations, one a decision and ring; `expected` lists what may be drawn, the slow way."""

    def __init__(self, n_rings, seed=0):
        self.rng = np.random.default_rng(seed)
        self.rings = np.arange(n_rings)
        self.count = 0
        self.expected = {}

    def begin(self, buffer):
        buffer.cut(self.rings)
        self._observe(buffer)

    def _observe(self, buffer):
        self.now = self.count + 1 + self.rings.astype(float)
        self.count += len(self.rings)
        buffer.observe(self.rings, {"x": np.stack([self.now, self.now], 1)})

    def advance(self, buffer, n_steps=1):
        for _ in range(n_steps):
            taken = self.now
            buffer.decide(self.rings, {"a": (taken % 1000).astype(np.int64)})
            ending = self.rng.choice(["goes on", "terminated", "truncated"], p=[0.6, 0.2, 0.2], size=len(self.rings))
            buffer.store(self.rings, -taken, np.where(ending == "terminated", 0.0, GAMMA))
            self._observe(buffer)
            following = self.now
            cut = self.rings[ending == "truncated"]
            buffer.cut(cut)
            self._observe(buffer)
            goes_on = ending == "goes on"
            buffer.observe(self.rings[goes_on], {"x": np.stack([following, following], 1)[goes_on]})
            self.now = np.where(goes_on, following, self.now)
            for ring, kind in enumerate(ending):
                self.expected[taken[ring]] = None if kind == "terminated" else following[ring]


def check(buffer, stream, rng):
    """Every drawn transition is one of the stream's; returns the observations drawn."""
    batch = buffer.sample(512, rng)
    drawn = batch.observation["x"][:, 0]
    for i, observation in enumerate(drawn):
        following = stream.expected[float(observation)]
        assert batch.action["a"][i] == observation % 1000
        assert batch.reward[i] == -observation
        assert batch.discount[i] == np.float32(0.0 if following is None else GAMMA)
        if following is not None:
            assert batch.next_observation["x"][i].tolist() == [following, following]
    return set(drawn.tolist())


@pytest.mark.parametrize("n_rings", [1, 3])
def test_drawn_transitions_are_those_that_happened(n_rings):
    stream, rng, buffer = Stream(n_rings), np.random.default_rng(1), make_buffer(n_rings, 20 * n_rings)
    stream.begin(buffer)
    for i in range(100):
        stream.advance(buffer)
        check(buffer, stream, rng)
        assert buffer.n_transitions == np.count_nonzero(buffer._memory.valid)
        if i % 7 == 6:
            stream.begin(buffer)


def test_before_it_is_full_every_transition_can_be_drawn():
    stream, rng, buffer = Stream(2), np.random.default_rng(1), make_buffer(2, 1000)
    stream.begin(buffer)
    stream.advance(buffer, 20)
    assert buffer.n_transitions == len(stream.expected) == 40
    drawn = set().union(*(check(buffer, stream, rng) for _ in range(3)))
    assert drawn == set(stream.expected)


def test_when_full_the_oldest_are_gone_and_the_newest_there():
    stream, rng, buffer = Stream(1), np.random.default_rng(1), make_buffer(1, 16)
    stream.begin(buffer)
    stream.advance(buffer, 100)
    drawn = check(buffer, stream, rng)
    assert drawn == set(sorted(stream.expected)[-buffer.n_transitions :])
    assert 8 <= buffer.n_transitions <= 15


def test_transitions_are_drawn_uniformly():
    stream, buffer = Stream(2), make_buffer(2, 1000)
    stream.begin(buffer)
    stream.advance(buffer, 50)
    draws = buffer.sample(100_000, np.random.default_rng(0)).observation["x"][:, 0]
    _, counts = np.unique(draws, return_counts=True)
    assert len(counts) == 100
    assert 800 < counts.min() <= counts.max() < 1200


def test_rings_that_are_nearly_empty_cost_no_draws():
    """Of eight rings one holds whole episodes, and each of the others a decision."""
    source, stream, buffer = make_buffer(1, 200), Stream(1), make_buffer(8, 8 * 300)
    stream.begin(source)
    stream.advance(source, 100)
    transitions, ends = source.stored(0)
    buffer.add_episodes(3, transitions, ends)
    stream = Stream(8)
    stream.begin(buffer)
    stream.advance(buffer, 1)
    drawing = RowDraws(buffer._memory, buffer._cursor, buffer._filled, np.random.default_rng(0))
    assert buffer._memory.flat_valid[drawing._any(10_000)].mean() > 0.6, "of all rows 1 in 20 is a transition"
    rows, counts = np.unique(drawing.rows(buffer.n_transitions * 400), return_counts=True)
    np.testing.assert_array_equal(rows, np.flatnonzero(buffer._memory.flat_valid))
    assert abs(counts - 400).max() < 5 * 20


@pytest.mark.parametrize("n_steps", [9, 120])
def test_a_restored_buffer_draws_and_stores_the_same(n_steps):
    streams, buffers = [Stream(2), Stream(2)], [make_buffer(2), make_buffer(2)]
    streams[0].begin(buffers[0])
    streams[1].begin(make_buffer(2))
    streams[0].advance(buffers[0], n_steps)
    streams[1].advance(make_buffer(2), n_steps)
    buffers[1].load_state_dict(buffers[0].state_dict())
    for buffer, stream in zip(buffers, streams, strict=True):
        stream.begin(buffer)
        stream.advance(buffer, 3)
    one, other = (buffer.sample(200, np.random.default_rng(3)).columns() for buffer in buffers)
    for name, column in one.items():
        np.testing.assert_array_equal(column, other[name])
    assert buffers[0].n_transitions == buffers[1].n_transitions


def test_a_checkpoint_holds_the_filled_rows_only():
    stream, buffer = Stream(1), make_buffer(1, 100_000)
    stream.begin(buffer)
    stream.advance(buffer, 5)
    assert buffer.state_dict()["columns"]["observation.x"].shape[1] <= 12


def episodes():
    """Three episodes of numbered observations: terminated, truncated, terminated."""
    now = np.array([1, 2, 3, 11, 12, 21], float)
    following = np.array([2, 3, 4, 12, 13, 22], float)
    discount = np.array([GAMMA, GAMMA, 0.0, GAMMA, GAMMA, 0.0], np.float32)
    transitions = Transitions(
        observation={"x": np.stack([now, now], 1)},
        action={"a": now.astype(np.int64)},
        reward=-now.astype(np.float32),
        next_observation={"x": np.stack([following, following], 1)},
        discount=discount,
    )
    ends = np.array([False, False, True, False, True, True])
    expected = dict(zip(now, np.where(discount > 0, following, np.nan), strict=True))
    return transitions, ends, {key: None if np.isnan(value) else value for key, value in expected.items()}


def test_whole_episodes_are_stored_as_they_were_played():
    buffer, (transitions, ends, expected) = make_buffer(), episodes()
    buffer.add_episodes(0, transitions, ends)
    assert buffer.n_transitions == 6
    stream = Stream(1)
    stream.expected = expected
    assert check(buffer, stream, np.random.default_rng(0)) == set(expected)


def test_whole_episodes_come_before_what_is_played_and_are_overwritten_with_time():
    buffer, (transitions, ends, expected) = make_buffer(1, 24), episodes()
    buffer.add_episodes(0, transitions, ends)
    stream = Stream(1)
    stream.count, stream.expected = 1000, dict(expected)
    stream.begin(buffer)
    stream.advance(buffer, 5)
    drawn = check(buffer, stream, np.random.default_rng(0))
    assert drawn == set(stream.expected)
    stream.advance(buffer, 60)
    assert not check(buffer, stream, np.random.default_rng(0)) & set(expected)


def test_episodes_longer_than_a_ring_are_refused():
    transitions, ends, _ = episodes()
    with pytest.raises(ValueError, match="7 rows"):
        make_buffer(1, 7).add_episodes(0, transitions, ends)
    make_buffer(1, 8).add_episodes(0, transitions, ends)


@pytest.mark.parametrize("n_rings", [1, 3])
@pytest.mark.parametrize("n_steps", [0, 7, 30, 33, 200])
def test_divided_rings_go_on_and_lose_no_more_than_where_they_were_cut(n_rings, n_steps):
    """Two halves of every ring: full and wrapped, filled in part, or empty; an odd number of rows loses its oldest."""
    stream, rng, buffer = Stream(n_rings), np.random.default_rng(1), make_buffer(n_rings, 65 * n_rings)
    stream.begin(buffer)
    stream.advance(buffer, n_steps)
    before = buffer.n_transitions
    buffer.divide()
    assert (buffer.n_rings, buffer.n_rows) == (2 * n_rings, 32)
    assert before - 2 * n_rings <= buffer.n_transitions == np.count_nonzero(buffer._memory.valid) <= before
    stream.rings = 2 * stream.rings
    for _ in range(80):
        stream.advance(buffer)
        check(buffer, stream, rng)


def test_every_transition_of_a_divided_ring_has_one_place():
    stream, buffer = Stream(1), make_buffer(1, 64)
    stream.begin(buffer)
    stream.advance(buffer, 200)
    before = {float(x) for x in buffer._memory.observation["x"][0, buffer._memory.valid[0], 0]}
    where = {(0, row): float(buffer._memory.observation["x"][0, row, 0]) for row in range(64)}
    moved = buffer.divide()
    after = {float(x) for x in buffer._memory.observation["x"][buffer._memory.valid][:, 0]}
    assert after <= before
    assert len(before - after) <= 1
    places = {moved(*at): number for at, number in where.items()}
    assert len(places) == 64
    assert all(buffer._memory.observation["x"][*at, 0] == number for at, number in places.items())


def test_rings_are_divided_until_they_are_too_short():
    buffer = make_buffer(1, 16)
    buffer.divide()
    buffer.divide()
    with pytest.raises(RequestError, match="too small for a team"):
        buffer.divide()


@pytest.mark.parametrize("n_divisions", [0, 1, 2])
def test_a_divided_buffer_is_restored_into_any_other(n_divisions):
    stream, buffer, other = Stream(2), make_buffer(2, 130), make_buffer(2, 130)
    stream.begin(buffer)
    stream.advance(buffer, 100)
    buffer.divide()
    for _ in range(n_divisions):
        other.divide()
    other.load_state_dict(buffer.state_dict())
    assert (other.n_rings, other.n_rows, other.n_transitions) == (buffer.n_rings, buffer.n_rows, buffer.n_transitions)
    one, two = (each.sample(200, np.random.default_rng(3)).columns() for each in (buffer, other))
    for name, column in one.items():
        np.testing.assert_array_equal(column, two[name])


def test_what_is_stored_can_be_stored_elsewhere():
    stream, buffer, elsewhere = Stream(2), make_buffer(2, 64), make_buffer(1, 256)
    stream.begin(buffer)
    stream.advance(buffer, 200)
    for ring in range(2):
        elsewhere.add_episodes(0, *buffer.stored(ring))
    assert elsewhere.n_transitions == buffer.n_transitions > 30
    numbers = [
        {float(x) for x in each._memory.observation["x"][each._memory.valid][:, 0]} for each in (buffer, elsewhere)
    ]
    assert numbers[0] == numbers[1] == check(elsewhere, stream, np.random.default_rng(0))


@pytest.mark.parametrize("n_steps", [12, 300])
@pytest.mark.parametrize("n_rings", [1, 3])
def test_runs_are_what_a_ring_stored_one_after_the_other(n_rings, n_steps):
    """In a ring that is not full, and in one that was overwritten; where the newest is reached another one follows."""
    stream, buffer = Stream(n_rings), make_buffer(n_rings, 64 * n_rings)
    stream.begin(buffer)
    order = [[] for _ in range(n_rings)]
    for _ in range(n_steps):
        for ring, number in enumerate(stream.now):
            order[ring].append(float(number))
        stream.advance(buffer)
    after = {one: two for numbers in order for one, two in itertools.pairwise(numbers)}
    newest = {numbers[-1] for numbers in order}
    batch = buffer.sample(200, np.random.default_rng(0), run_length=4)
    numbers = batch.observation["x"][:, 0]
    assert len(numbers) == 800
    jumps = 0
    for run in numbers.reshape(200, 4).tolist():
        for one, two in itertools.pairwise(run):
            jumps += one in newest
            assert one in newest or after[one] == two
    assert jumps < 200
    for i, number in enumerate(numbers.tolist()):
        assert batch.reward[i] == -number
        following = stream.expected[number]
        assert (batch.discount[i] == 0.0) == (following is None)
