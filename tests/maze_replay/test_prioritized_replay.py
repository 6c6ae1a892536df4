"""Drawing by priority against probabilities and weights worked out one by one."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_replay.priorities import Priorities
from maze_replay.prioritized import SMALLEST_ERROR, PrioritizedReplayBuffer

OBSERVATION, ACTION = spaces.Dict(x=spaces.Box(0, 1e6, (1,), np.float64)), spaces.Dict(a=spaces.Discrete(9))
RINGS = np.arange(2)


@pytest.mark.parametrize("n_rows", [1, 2, 10, 137])
def test_rows_are_drawn_in_proportion(n_rows):
    rng = np.random.default_rng(n_rows)
    priorities = Priorities(n_rows)
    expected = np.zeros(n_rows)
    for _ in range(50):
        rows = rng.integers(0, n_rows, size=max(1, n_rows // 3))
        values = rng.random(len(rows)) * (rng.random(len(rows)) < 0.7)
        for row, value in zip(rows, values, strict=True):
            expected[row] = value
        priorities.set(rows, values)
    expected[0] = 0.5
    priorities.set(np.array([0]), 0.5)
    assert priorities.total == pytest.approx(expected.sum())
    np.testing.assert_array_equal(priorities.array[:n_rows], expected)
    counts = np.bincount(np.concatenate([priorities.draw(64, rng) for _ in range(400)]), minlength=n_rows)
    assert not counts[expected == 0].any()
    np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), atol=0.01)


def test_each_equal_part_of_the_total_gives_one_row():
    priorities = Priorities(4)
    priorities.set(np.arange(4), 1.0)
    for seed in range(20):
        assert sorted(priorities.draw(4, np.random.default_rng(seed))) == [0, 1, 2, 3]


def filled(n_steps=20, size=24, **options):
    """A buffer in which observation t of ring r is 100 r + t, the reward t; every seventh transition terminates."""
    buffer = PrioritizedReplayBuffer(OBSERVATION, ACTION, len(RINGS), size, **options)
    for t in range(n_steps):
        buffer.observe(RINGS, {"x": 100.0 * RINGS[:, None] + t})
        buffer.decide(RINGS, {"a": RINGS})
        buffer.store(RINGS, np.full(2, float(t)), np.full(2, 0.0 if t % 7 == 6 else 0.9))
    buffer.observe(RINGS, {"x": 100.0 * RINGS[:, None] + n_steps})
    return buffer


def test_only_transitions_are_drawn_and_new_ones_as_likely_as_the_likeliest():
    buffer = filled()
    drawn = buffer.draw(4000, np.random.default_rng(0))
    seen, counts = np.unique(drawn.transitions.observation["x"], return_counts=True)
    # 12 rows a ring, one of them pending
    np.testing.assert_array_equal(seen, [*range(9, 20), *range(109, 120)])
    np.testing.assert_allclose(counts / 4000, 1 / 22, atol=0.01)
    np.testing.assert_array_equal(drawn.weights, 1.0)


def test_probabilities_and_weights_are_those_of_the_paper():
    alpha, beta = 0.6, 0.4
    buffer, rng = filled(alpha=alpha), np.random.default_rng(1)
    rows = buffer.draw(200, rng).rows
    errors = rng.normal(size=len(rows)) * 3.0
    buffer.set_errors(rows, errors)
    last_error = dict(zip(rows.tolist(), errors.tolist(), strict=True))
    assert len(last_error) == 22
    priority = {row: (abs(error) + SMALLEST_ERROR) ** alpha for row, error in last_error.items()}
    total = sum(priority.values())
    drawn = buffer.draw(20_000, rng, beta=beta)
    weight = {row: (22 * value / total) ** -beta for row, value in priority.items()}
    greatest = max(weight[row] for row in drawn.rows.tolist())
    np.testing.assert_allclose(drawn.weights, [weight[row] / greatest for row in drawn.rows.tolist()], rtol=1e-5)
    part = np.bincount(drawn.rows, minlength=24) / 20_000
    np.testing.assert_allclose(part, [priority.get(row, 0.0) / total for row in range(24)], atol=0.005)
    # What is stored next is as likely as the likeliest so far.
    buffer.store(RINGS, np.zeros(2), np.zeros(2))
    assert buffer._priorities.array.max() == pytest.approx((np.abs(errors).max() + SMALLEST_ERROR) ** alpha)


def test_steps_are_added_up_as_in_uniform_draws():
    drawn = filled().draw(200, np.random.default_rng(0), n_steps=3)
    for i, start in enumerate(drawn.transitions.observation["x"][:, 0] % 100):
        reward, discount, t = 0.0, 1.0, int(start)
        for t in range(int(start), min(int(start) + 3, 20)):
            reward, discount = reward + discount * t, discount * (0.0 if t % 7 == 6 else 0.9)
            if discount == 0.0:
                break
        assert drawn.transitions.reward[i] == pytest.approx(reward, rel=1e-6)
        assert drawn.transitions.discount[i] == pytest.approx(discount, rel=1e-6)


def test_a_restored_buffer_draws_the_same():
    buffer = filled()
    rows = buffer.draw(50, np.random.default_rng(0)).rows
    buffer.set_errors(rows, np.linspace(0.0, 2.0, 50))
    other = filled(n_steps=3)
    other.load_state_dict(buffer.state_dict())
    for made in (buffer, other):
        made.store(RINGS, np.ones(2), np.ones(2))
    one, two = (made.draw(64, np.random.default_rng(5), beta=0.5) for made in (buffer, other))
    np.testing.assert_array_equal(one.rows, two.rows)
    np.testing.assert_array_equal(one.weights, two.weights)


def test_priorities_go_with_their_rows_when_rings_are_divided():
    buffer = filled(size=48)
    rows = buffer.draw(200, np.random.default_rng(0)).rows
    buffer.set_errors(rows, np.random.default_rng(1).random(len(rows)))
    observed = buffer._memory.observation["x"].reshape(-1)
    priority = {
        observed[row]: buffer._priorities.array[row] for row in range(48) if buffer._memory.valid.reshape(-1)[row]
    }
    buffer.divide()
    assert buffer.n_rings == 4
    drawn = buffer.draw(500, np.random.default_rng(2))
    total = sum(buffer._priorities.array)
    assert buffer._priorities.total == pytest.approx(total)
    for row, number in zip(drawn.rows, drawn.transitions.observation["x"][:, 0], strict=True):
        assert buffer._priorities.array[row] == priority[number]


def test_whole_episodes_can_be_drawn():
    source = filled(n_steps=5).draw(1, np.random.default_rng(0)).transitions
    buffer = PrioritizedReplayBuffer(OBSERVATION, ACTION, 2, 24)
    buffer.add_episodes(1, source, np.ones(1, bool))
    np.testing.assert_array_equal(buffer.draw(8, np.random.default_rng(0)).rows // buffer.n_rows, 1)


def test_whole_episodes_that_come_late_leave_the_priorities_of_others_as_they_are():
    source = filled(n_steps=5).draw(3, np.random.default_rng(0)).transitions
    buffer = PrioritizedReplayBuffer(OBSERVATION, ACTION, 2, 40)
    buffer.add_episodes(1, source, np.ones(3, bool))
    first = np.flatnonzero(buffer._priorities.array)
    buffer.set_errors(first, np.full(len(first), 0.01))
    known = buffer._priorities.array.copy()
    buffer.add_episodes(1, source, np.ones(3, bool))
    np.testing.assert_array_equal(buffer._priorities.array[first], known[first])
    new = np.setdiff1d(np.flatnonzero(buffer._priorities.array), first)
    assert len(new) == 3
    assert (buffer._priorities.array[new] > known.max()).all()
