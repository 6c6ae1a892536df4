"""The batched environment refuses the actions that Gymnasium's own check refuses, and no others."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_gym.native_vector import _BoundedOnce, make_vector_env
from maze_gym.options import GymOptions
from maze_kernel.contracts.env import FLAT_KEY
from maze_kernel.errors import EnvError

SPACE = spaces.MultiDiscrete([2, 3, 4], start=[0, -1, 5])
FROM_ZERO = spaces.MultiDiscrete([2, 3, 4])


@pytest.mark.parametrize(
    "value",
    [
        np.array([0, -1, 5]),
        np.array([1, 1, 8]),
        np.array([2, 0, 6]),
        np.array([0, -2, 6]),
        np.array([0, 0, 9]),
        np.array([0, 0]),
        np.zeros((1, 3), np.int64),
        np.array([0.0, 0.0, 6.0]),
        np.array([0, 0, 6], np.uint64),
        np.array([0, 0, 6], np.int8),
        [0, 0, 6],
        [0, 0, 9],
        (0, 0, 6),
        None,
        "0",
    ],
    ids=str,
)
def test_membership_is_gymnasiums(value):
    assert _BoundedOnce(SPACE).contains(value) == SPACE.contains(value)


@pytest.mark.parametrize(
    "value",
    [
        np.array([0, 0, 0]),
        np.array([1, 2, 3]),
        np.array([1, 2, 4]),
        np.array([-1, 0, 0]),
        np.array([0, 0, -(2**63)]),
        np.array([0, 2**63 - 1, 0]),
        np.zeros((3, 2), np.int64)[:, 0],
        np.array([0, 0]),
        np.array([1, 2, 3], np.int32),
        np.array([1, 2, 3], np.uint64),
        np.array([0.0, 0.0, 0.0]),
        [1, 2, 3],
    ],
    ids=str,
)
def test_membership_is_gymnasiums_where_all_choices_count_from_zero(value):
    assert _BoundedOnce(FROM_ZERO).contains(value) == FROM_ZERO.contains(value)


def test_an_equal_space_with_the_same_samples():
    own = _BoundedOnce(spaces.MultiDiscrete([2] * 4, seed=3))
    original = spaces.MultiDiscrete([2] * 4, seed=3)
    assert own == original
    assert [own.sample().tolist() for _ in range(5)] == [original.sample().tolist() for _ in range(5)]


def test_a_wrong_action_is_still_refused():
    env = make_vector_env(3, GymOptions(id="CartPole-v1"))
    env.reset([[0], [1], [2]])
    with pytest.raises(EnvError, match="invalid"):
        env.step({FLAT_KEY: {"action": np.array([0, 1, 2])}})
    env.close()
