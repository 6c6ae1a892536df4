"""Shares of several kinds of rows: even, whole, and no part empty without need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maze_runtime.training.shares import shares


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 30))
def test_every_row_is_in_one_part_and_each_kind_is_spread_evenly(n_rows, n_parts):
    sizes = shares(n_rows, n_parts)
    assert [sum(own) for own in sizes] == n_rows
    assert all(len(own) == n_parts and max(own) - min(own) <= 1 for own in sizes)
    if sum(n_rows) >= n_parts:
        assert all(sum(part) >= 1 for part in zip(*sizes, strict=True))


@pytest.mark.parametrize(("n_rows", "n_parts"), [([1024], 16), ([513, 511], 4), ([37, 3], 4), ([5], 3)])
def test_parts_are_cut_at_equal_distances_where_none_is_empty(n_rows, n_parts):
    """The cuts that runs of before were made with."""
    expected = [[n * (i + 1) // n_parts - n * i // n_parts for i in range(n_parts)] for n in n_rows]
    assert shares(n_rows, n_parts) == expected
