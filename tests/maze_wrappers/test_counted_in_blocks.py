"""Samples that wait to be counted: how many, and that nobody who asks changes anything."""

import copy

import numpy as np
import pytest

from maze_wrappers.counted_in_blocks import CountedInBlocks
from maze_wrappers.running_statistics import RunningMoments, RunningRange


def batches(n_batches, rows=8, shape=(3,), seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(rows, *shape)) * 3 + 5).astype(np.float32) for _ in range(n_batches)]


class Counts(RunningMoments):
    n_merges = 0

    def merge(self, other):
        self.n_merges += 1
        super().merge(other)


@pytest.mark.parametrize("axis", [(0,), (0, 1)])
def test_what_is_in_use_lacks_a_64th_at_most_and_is_counted_seldom(axis):
    statistics = Counts(axis)
    counted = CountedInBlocks(statistics)
    seen, lengths = [], []
    for batch in batches(3000):
        seen.append(batch)
        before = statistics.n_merges
        assert counted.add(batch) == (statistics.n_merges > before)
        rows = statistics.count / (3 if 1 in axis else 1)
        lengths.append(rows / (8 * len(seen)))
    assert min(lengths) >= 64 / 65 - 1e-3
    assert lengths[:64] == [1.0] * 64
    assert statistics.n_merges < 350
    assert counted.count()
    assert not counted.count()
    everything = np.concatenate(seen).astype(np.float64)
    wanted = everything.mean(0) if axis == (0,) else everything.mean((0, 1))
    np.testing.assert_allclose(statistics.mean.squeeze(), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        statistics.std.squeeze(), everything.std(0) if axis == (0,) else everything.std((0, 1)), rtol=1e-12
    )


@pytest.mark.parametrize("kind", [RunningMoments, RunningRange])
def test_whoever_goes_on_from_the_state_goes_on_alike_and_asking_changes_nothing(kind):
    asked, alone = CountedInBlocks(kind()), CountedInBlocks(kind())
    for batch in batches(700):
        changed = alone.add(batch)
        asked.state_dict()
        assert asked.add(batch) == changed
    state = asked.state_dict()
    assert state["count"] == 5600
    np.testing.assert_equal(state, alone.state_dict())
    later = CountedInBlocks(kind())
    later.add(np.full((4, 3), 1e6))
    later.load_state_dict(copy.deepcopy(state))
    alone.begin()
    later.begin()
    for batch in batches(200, seed=2):
        assert alone.add(batch) == later.add(batch)
        np.testing.assert_equal(alone.state_dict(), later.state_dict())


def test_rows_that_are_written_over_and_large_ones_and_none_are_counted_as_they_came():
    statistics = RunningMoments()
    counted = CountedInBlocks(statistics)
    for batch in batches(400):
        counted.add(batch)
    counted.count()
    rows = np.full((8, 3), 7.0)
    assert not counted.add(rows)
    rows[:] = np.nan
    assert np.isfinite(counted.state_dict()["mean"]).all()
    assert not counted.add(np.zeros((0, 3)))
    images = RunningMoments()
    large = CountedInBlocks(images)
    for _ in range(100):
        large.add(np.zeros((2, 128, 128), np.float32))
    assert images.count >= 200 - 16


def test_statistics_that_count_no_further_are_kept_up_to_date():
    class Latest(RunningRange):
        def merge(self, other):
            super().merge(other)
            self.count = 1.0

    statistics = Latest()
    counted = CountedInBlocks(statistics)
    assert all(counted.add(batch) for batch in batches(300))
