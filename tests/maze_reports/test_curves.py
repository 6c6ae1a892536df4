"""Curves that hold their last value, against loops."""

import numpy as np
import pytest

from maze_reports.curves import carried_forward, common_grid, first_reaching, mean_over


def test_the_last_value_is_carried_forward():
    random = np.random.default_rng(0)
    axis = np.sort(random.choice(100, 12, replace=False)).astype(float)
    values = random.normal(size=12)
    grid = np.linspace(0, 120, 50)
    expected = []
    for place in grid:
        seen = [value for at, value in zip(axis, values, strict=True) if at <= place]
        expected.append(seen[-1] if seen else np.nan)
    np.testing.assert_array_equal(carried_forward(axis, values, grid), expected)
    assert np.isnan(carried_forward(np.empty(0), np.empty(0), grid)).all()


def test_two_values_at_one_place_leave_the_later_one():
    assert carried_forward(np.array([5.0, 5.0]), np.array([1.0, 2.0]), np.array([5.0])) == [2.0]


def test_the_mean_over_the_training_is_the_area_under_the_steps():
    axis, values = np.array([10.0, 20.0, 50.0]), np.array([1.0, 3.0, 10.0])
    fine = np.linspace(10, 80, 70_001)[:-1]
    assert mean_over(axis, values, 10, 80) == pytest.approx(carried_forward(axis, values, fine).mean(), rel=1e-3)
    assert mean_over(axis, values, 0, 20) == 1.0
    assert mean_over(axis, values, 50, 50) == 10.0


def test_a_grid_has_every_place_or_an_even_choice_with_both_ends():
    axes = [np.array([1.0, 3.0]), np.array([2.0, 3.0])]
    assert common_grid(axes).tolist() == [1.0, 2.0, 3.0]
    thinned = common_grid([np.arange(1000.0)], max_points=11)
    assert len(thinned) == 11
    assert thinned[[0, -1]].tolist() == [0.0, 999.0]
    assert len(common_grid([])) == 0


def test_the_first_place_that_reaches_a_threshold():
    axis, values = np.array([1.0, 2.0, 3.0]), np.array([5.0, 9.0, 4.0])
    assert first_reaching(axis, values, 9.0) == 2.0
    assert first_reaching(axis, values, 9.1) == np.inf
    assert first_reaching(axis, values, 4.0, minimize=True) == 3.0
