"""Infinity and the largest float32 both say that a number has no bound, to everyone who asks."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_runtime.env.box_bounds import bounds_of, is_open_above, is_open_below
from maze_runtime.models.action_distribution import space_word
from maze_runtime.models.action_encoding import ActionEncoder

LARGEST = np.finfo(np.float32).max


@pytest.mark.parametrize("none", [np.inf, LARGEST])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bounds_of_a_box_number_by_number(none, dtype):
    low, high = np.array([[-2, -none, 1], [3, -none, 0]], dtype), np.array([[4, 2, none], [3, none, 1]], dtype)
    bounds = bounds_of(spaces.Box(low, high, dtype=dtype))
    np.testing.assert_array_equal(bounds.below, [[True, False, True], [True, False, True]])
    np.testing.assert_array_equal(bounds.above, [[True, True, False], [True, False, True]])
    np.testing.assert_array_equal(bounds.both, [[True, False, False], [True, False, True]])
    np.testing.assert_array_equal(bounds.is_wide, [[True, False, False], [False, False, True]])
    np.testing.assert_array_equal(bounds.centre, [[1.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    np.testing.assert_array_equal(bounds.half_width, [[3.0, 1.0, 1.0], [1.0, 1.0, 0.5]])


def test_what_float32_cannot_hold_is_no_bound_and_integers_always_have_bounds():
    numbers = np.array([-np.inf, -1e39, -1.0, np.nextafter(LARGEST, np.float32(0)), 1e300])
    assert is_open_below(numbers).tolist() == [True, True, False, False, False]
    assert is_open_above(numbers).tolist() == [False, False, False, False, True]
    for dtype in (np.uint8, np.int64):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        assert bounds_of(spaces.Box(least, most, (2,), dtype)).both.all()


@pytest.mark.parametrize("none", [np.inf, LARGEST])
def test_distributions_networks_and_policies_agree_on_what_is_open(none):
    partly = spaces.Box(np.array([-none, 0.0], np.float32), np.array([none, 1.0], np.float32))
    unbounded = spaces.Box(-none, none, (2,), np.float32)
    assert (space_word(partly), space_word(unbounded)) == ("PartlyBoundedBox", "UnboundedBox")
    assert ActionEncoder(spaces.Dict(a=unbounded)).log_scale == 0.0
    assert ActionEncoder(spaces.Dict(a=partly)).log_scale == pytest.approx(np.log(0.5))


def test_a_box_of_one_number_without_dimensions_has_arrays_without_dimensions():
    bounds = bounds_of(spaces.Box(-2.0, 4.0, (), np.float32))
    assert all(isinstance(array, np.ndarray) and array.shape == () for array in (*bounds, bounds.both))
    assert (float(bounds.centre), float(bounds.half_width)) == (1.0, 3.0)
