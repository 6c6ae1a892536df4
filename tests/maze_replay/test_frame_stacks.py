"""Stacks of frames that are kept as single frames, beside buffers that keep every stack whole."""

import contextlib

import numpy as np
import pytest
from gymnasium import spaces

import maze_replay.frame_stacks
from maze_kernel.errors import RequestError
from maze_replay.frame_stacks import FrameStacks, may_be_stacked
from maze_replay.prioritized import PrioritizedReplayBuffer
from maze_replay.replay import ReplayBuffer
from maze_replay.transitions import Transitions

N, FRAME = 4, (16, 16)
SPACE = spaces.Dict(x=spaces.Box(-1.0, 1.0, (2,)), screen=spaces.Box(0, 255, (N, *FRAME), np.uint8))
ACTION = spaces.Dict(a=spaces.Discrete(3))


@pytest.fixture(params=[ReplayBuffer, PrioritizedReplayBuffer])
def kind(request):
    return request.param


@pytest.fixture
def keeps_whole(monkeypatch):
    """A context in which buffers are made, or divided, that keep every stack."""

    @contextlib.contextmanager
    def context():
        with monkeypatch.context() as patched:
            for module in (maze_replay.memory, maze_replay.frame_stacks):
                patched.setattr(module, "may_be_stacked", lambda _space: False)
            yield

    return context


@pytest.fixture
def pair(kind, keeps_whole):
    """pair(n_rings, size): a buffer, and one that keeps every stack."""

    def make(n_rings, size):
        stacked = kind(SPACE, ACTION, n_rings, size)
        with keeps_whole():
            return stacked, kind(SPACE, ACTION, n_rings, stacked.n_rows * n_rings)

    return make


class Camera:
    """Stacks of frames of episodes: zeros, or the first frame again and again, before an episode began."""

    def __init__(self, seed, *, repeats=False, shifts=True, levels=3):
        self._rng, self._repeats, self._shifts, self._levels = np.random.default_rng(seed), repeats, shifts, levels
        self.begin()

    def frame(self):
        # Few different ones, so that episodes look alike and stacks are taken for one another where they can be.
        return np.full(FRAME, self._rng.integers(self._levels), np.uint8)

    def begin(self):
        first = self.frame()
        self.stack = np.zeros((N, *FRAME), np.uint8)
        self.stack[:] = first if self._repeats else 0
        self.stack[-1] = first

    def go_on(self):
        if self._shifts:
            self.stack = np.concatenate([self.stack[1:], self.frame()[None]])
        else:
            self.stack = self._rng.integers(0, 256, self.stack.shape, np.uint8)


def observation_of(cameras, rng):
    return {"x": rng.normal(size=(len(cameras), 2)).astype(np.float32), "screen": np.stack([c.stack for c in cameras])}


def play(buffers, n_ticks, seed, n_rings, **of_camera):
    """Random episodes that end, are cut, or go on, stored by every way that there is."""
    rng = np.random.default_rng(seed)
    cameras, rings = [Camera([seed, ring], **of_camera) for ring in range(n_rings)], np.arange(n_rings)
    first = observation_of(cameras, rng)
    for buffer in buffers:
        buffer.observe(rings, first)
    for _ in range(n_ticks):
        action, reward = {"a": rng.integers(3, size=n_rings)}, rng.normal(size=n_rings).astype(np.float32)
        ends, cut = rng.random(n_rings) < 0.06, rng.random(n_rings) < 0.06
        for camera in cameras:
            camera.go_on()
        seen = observation_of(cameras, rng)
        if not (ends | cut).any():
            for buffer in buffers:
                buffer.follow(action, reward, 0.99, seen)
            continue
        discount = np.where(ends, 0.0, 0.99).astype(np.float32)
        for camera, is_over in zip(cameras, ends | cut, strict=True):
            if is_over:
                camera.begin()
        after = observation_of(cameras, rng)
        lost = np.flatnonzero(cut & ~ends)
        for buffer in buffers:
            buffer.decide(rings, action)
            buffer.store(rings, reward, discount)
            buffer.observe(lost, {name: array[lost] for name, array in seen.items()})
            buffer.cut(lost)
            buffer.observe(rings, after)


def valid_rows(buffer):
    return np.flatnonzero(buffer._memory.flat_valid)


def assert_same(stacked, plain, n_steps=1):
    """All transitions that are left are what they are where every stack is kept."""
    rows = valid_rows(stacked)
    assert len(rows) == stacked.n_transitions > 0
    for name in ("observation", "action", "reward", "next_observation", "discount"):
        mine, yours = (getattr(buffer.read(rows, n_steps=n_steps), name) for buffer in (stacked, plain))
        bootstraps = stacked.read(rows, n_steps=n_steps).discount > 0.0
        if isinstance(mine, dict):
            assert list(mine) == list(yours)
            for key, array in mine.items():
                kept = bootstraps if name == "next_observation" else slice(None)  # of the others nobody reads it
                np.testing.assert_array_equal(array[kept], yours[key][kept])
                assert array.dtype == yours[key].dtype
        else:
            np.testing.assert_array_equal(mine, yours)


def lost_rows(stacked, plain):
    """Those that one buffer has and the other has not, by how many rows they lie behind the pending one."""
    rows = np.setdiff1d(valid_rows(plain), valid_rows(stacked))
    assert not np.setdiff1d(valid_rows(stacked), valid_rows(plain)).size
    ring, position = np.divmod(rows, stacked.n_rows)
    return set(((position - stacked._cursor[ring]) % stacked.n_rows).tolist())


@pytest.mark.parametrize(
    "of_camera", [{}, {"repeats": True}, {"levels": 1}, {"levels": 200}, {"shifts": False}], ids=str
)
@pytest.mark.parametrize(("n_rings", "size"), [(1, 40), (3, 90), (3, 2000)])
def test_what_is_read_is_what_was_written(pair, of_camera, n_rings, size):
    stacked, plain = pair(n_rings, size)
    for seed in range(4):
        play([stacked, plain], 150, seed, n_rings, **of_camera)
        assert_same(stacked, plain)
        assert_same(stacked, plain, n_steps=3)
        assert lost_rows(stacked, plain) <= set(range(1, N))
    assert stacked._memory.stacks["screen"].is_whole == (of_camera == {"shifts": False})


def test_a_frame_is_kept_once():
    stacked = ReplayBuffer(SPACE, ACTION, 2, 4000)
    play([stacked], 1500, 0, 2, levels=200)
    kept = sum(array.nbytes for name, array in stacked._columns().items() if "screen" in name)
    beside = sum(older.nbytes for older in stacked._memory.stacks["screen"]._older.values())
    every_stack = 4000 * int(np.prod(SPACE["screen"].shape))
    assert kept == 4000 * (int(np.prod(FRAME)) + 1)
    assert kept + beside < 0.4 * every_stack  # an episode of eight decisions begins with three frames more


def test_frames_beside_do_not_pile_up():
    stacked = ReplayBuffer(SPACE, ACTION, 2, 64)
    for seed in range(20):
        play([stacked], 60, seed, 2, levels=200)
    assert len(stacked._memory.stacks["screen"]._older) <= 64


def test_states_go_on_where_they_were_left(kind, pair):
    (stacked, plain), other = pair(2, 80), kind(SPACE, ACTION, 2, 80)
    play([stacked, plain], 70, 1, 2)
    play([other], 90, 2, 2)
    other.load_state_dict(stacked.state_dict())
    assert_same(other, plain)
    play([stacked, plain, other], 30, 3, 2)
    assert_same(other, plain)
    np.testing.assert_array_equal(valid_rows(other), valid_rows(stacked))


@pytest.mark.parametrize("direction", ["older checkpoint", "whole again"])
def test_states_of_whole_stacks_are_read(kind, pair, direction):
    stacked, plain = pair(2, 80)
    play([stacked, plain], 70, 1, 2)
    if direction == "whole again":
        play([stacked], 200, 5, 2, shifts=False)
        stacked._memory.stacks["screen"]._keep_whole()
        stacked.load_state_dict(make_played(kind, 70).state_dict())
        assert not stacked._memory.stacks["screen"].is_whole
    else:
        state = plain.state_dict()
        del state["stacks"]
        stacked.load_state_dict(state)
        assert stacked._memory.stacks["screen"].is_whole
    assert_same(stacked, plain)
    play([stacked, plain], 30, 3, 2)
    assert_same(stacked, plain)


def make_played(kind, n_ticks):
    buffer = kind(SPACE, ACTION, 2, 80)
    play([buffer], n_ticks, 1, 2)
    return buffer


@pytest.mark.parametrize("n_ticks", [10, 25, 31, 70])
@pytest.mark.parametrize("size", [80, 82])
def test_rings_are_divided(pair, keeps_whole, n_ticks, size):
    stacked, plain = pair(2, size)
    play([stacked, plain], n_ticks, 1, 2)
    stacked.divide()
    with keeps_whole():
        plain.divide()
    assert_same(stacked, plain)
    play([stacked, plain], 30, 2, 4)
    assert_same(stacked, plain)
    assert lost_rows(stacked, plain) <= set(range(1, N))


def test_too_short_rings_are_not_divided():
    buffer = ReplayBuffer(SPACE, ACTION, 1, 12)
    with pytest.raises(RequestError, match="too small") as found:
        buffer.divide()
    assert "7 rows" in str(found.value)


def episodes(seed):
    """Three episodes, the second one cut."""
    rng, camera, rows = np.random.default_rng(seed), Camera(seed), []
    for n_decisions, discount in ((7, 0.0), (5, 0.9), (9, 0.0)):
        camera.begin()
        for step in range(n_decisions):
            before = camera.stack
            camera.go_on()
            last = step == n_decisions - 1
            rows.append((before, camera.stack, discount if last else 0.9, last))
    screens, following, discounts, ends = (np.stack(own) for own in zip(*rows, strict=True))
    n = len(ends)
    return Transitions(
        observation={"x": np.zeros((n, 2), np.float32), "screen": screens},
        action={"a": rng.integers(3, size=n)},
        reward=rng.normal(size=n).astype(np.float32),
        next_observation={"x": np.zeros((n, 2), np.float32), "screen": following},
        discount=discounts.astype(np.float32),
    ), ends


def test_episodes_that_are_stored_at_once(pair):
    stacked, plain = pair(2, 100)
    for seed in range(6):
        for buffer in (stacked, plain):
            buffer.add_episodes(1, *episodes(seed))
        play([stacked, plain], 11, seed, 2)
        assert_same(stacked, plain)
        assert lost_rows(stacked, plain) <= set(range(1, N))


@pytest.mark.parametrize(
    ("shape", "is_stack"),
    [((4, 84, 84), True), ((4, 84, 84, 3), True), ((84, 84, 4), False), ((84, 84), False), ((4, 3, 3), False)],
)
def test_which_observations_are_tried(shape, is_stack):
    assert may_be_stacked(spaces.Box(0, 255, shape, np.uint8)) is is_stack


def test_pictures_of_three_colours_are_kept_whole_after_some_rows():
    column = FrameStacks(spaces.Box(0, 255, (3, 20, 20), np.uint8), 2, 1000)
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (300, 2, 3, 20, 20), np.uint8)
    for row, both in enumerate(pictures):
        column[np.array([row, 1000 + row])] = both
    assert column.is_whole
    rows = np.arange(300)
    np.testing.assert_array_equal(column.take(rows), pictures[:, 0])
    np.testing.assert_array_equal(column.take(1000 + rows), pictures[:, 1])
