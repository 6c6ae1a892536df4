"""The statistics, against slow versions written apart from them and against scipy."""

import numpy as np
import pytest
from scipy import stats

from maze_runtime.series.bootstrap import (
    bootstrap_band,
    bootstrap_interval,
    improvement_interval,
    interquartile_mean,
    mean,
    performance_profile,
    probability_of_improvement,
)


def slow_bootstrap(tasks, statistic, n_resamples=4000):
    """Ends of the percentile interval, one resample at a time, in plain loops over runs."""
    random = np.random.RandomState(12345)
    found = []
    for _ in range(n_resamples):
        drawn = []
        for scores in tasks:
            drawn += [scores[random.randint(len(scores))] for _ in range(len(scores))]
        found.append(statistic(drawn))
    found.sort()
    return found[int(0.025 * n_resamples)], found[int(0.975 * n_resamples)]


def slow_iqm(scores):
    ordered = sorted(scores)
    cut = int(len(ordered) * 0.25)
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


@pytest.fixture
def tasks():
    random = np.random.default_rng(7)
    return [random.normal(0, 1, 8), random.normal(5, 2, 11), random.exponential(1.0, 6)]


@pytest.mark.parametrize("n", range(1, 20))
def test_the_interquartile_mean_is_scipys_trimmed_mean(n):
    scores = np.random.default_rng(n).normal(size=(3, n))
    expected = [stats.trim_mean(row, 0.25) for row in scores]
    np.testing.assert_allclose(interquartile_mean(scores), expected)


@pytest.mark.parametrize(("fast", "slow"), [(interquartile_mean, slow_iqm), (mean, lambda s: sum(s) / len(s))])
def test_intervals_are_those_of_the_slow_bootstrap(tasks, fast, slow):
    """Two samples of a few thousand resamples: their ends agree to a share of the interval's width."""
    interval = bootstrap_interval(tasks, fast, n_resamples=4000)
    low, high = slow_bootstrap([task.tolist() for task in tasks], slow)
    assert interval.low == pytest.approx(low, abs=0.06 * (high - low))
    assert interval.high == pytest.approx(high, abs=0.06 * (high - low))


def test_strata_are_kept_apart():
    """Every run of a task scores alike, so no resample within tasks differs from another."""
    tasks = [np.full(6, 0.0), np.full(6, 100.0)]
    interval = bootstrap_interval(tasks, mean)
    assert (interval.low, interval.high) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("n", "given", "narrow"), [(4, False, None), (5, True, True), (9, True, True), (10, True, False)]
)
def test_few_runs_get_no_interval_and_some_a_narrow_one(n, given, narrow):
    scores = np.arange(float(n))
    interval = bootstrap_interval([scores], mean)
    assert (interval is not None) == given
    assert interval is None or interval.is_narrow == narrow
    assert (bootstrap_band(np.ones((n, 3)), mean) is not None) == given
    assert (improvement_interval([scores], [np.arange(12.0)]) is not None) == given


def test_the_task_with_the_fewest_runs_decides():
    assert bootstrap_interval([np.arange(20.0), np.arange(4.0)], mean) is None


def test_a_band_is_the_interval_at_each_place():
    """Each place on its own: the same draws of runs as for one column alone."""
    curves = np.random.default_rng(1).normal(size=(7, 30)).cumsum(axis=1)
    low, high = bootstrap_band(curves, interquartile_mean)
    for place in (0, 17, 29):
        alone = bootstrap_band(curves[:, place : place + 1], interquartile_mean)
        np.testing.assert_allclose((low[place], high[place]), (alone[0][0], alone[1][0]))
        slow_low, slow_high = slow_bootstrap([curves[:, place].tolist()], slow_iqm)
        assert low[place] == pytest.approx(slow_low, abs=0.1 * (slow_high - slow_low))
        assert high[place] == pytest.approx(slow_high, abs=0.1 * (slow_high - slow_low))


def test_the_probability_of_improvement_is_that_of_mann_and_whitney(tasks):
    others = [task[::-1] * 0.9 + 0.1 for task in tasks]
    others[0] = tasks[0][:5]  # ties
    expected = [stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(tasks, others, strict=True)]
    assert probability_of_improvement(tasks, others) == pytest.approx(np.mean(expected))
    assert probability_of_improvement(tasks, tasks) == pytest.approx(0.5)
    assert probability_of_improvement([np.ones(3)], [np.zeros(4)]) == 1.0


def test_its_interval_is_that_of_a_slow_bootstrap():
    random = np.random.default_rng(3)
    x, y = random.normal(0.5, 1, 9), random.normal(0, 1, 7)
    interval = improvement_interval([x], [y], n_resamples=4000)
    again = np.random.RandomState(5)
    found = []
    for _ in range(1500):
        xs, ys = again.choice(x, len(x)), again.choice(y, len(y))
        found.append(sum((a > b) + 0.5 * (a == b) for a in xs for b in ys) / 63)
    low, high = np.percentile(found, [2.5, 97.5])
    assert interval.low == pytest.approx(low, abs=0.04)
    assert interval.high == pytest.approx(high, abs=0.04)


def test_a_profile_counts_every_task_alike(tasks):
    thresholds = np.linspace(-2, 9, 23)
    expected = [sum(sum(score > at for score in task) / len(task) for task in tasks) / len(tasks) for at in thresholds]
    np.testing.assert_allclose(performance_profile(tasks, thresholds), expected)


def test_results_do_not_change_from_call_to_call(tasks):
    """Nor from process to process."""
    interval = bootstrap_interval(tasks, mean)
    assert interval == bootstrap_interval(tasks, mean)
    assert (interval.low, interval.high) == pytest.approx((1.5186231, 2.3897333), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "low", "high"), [(3, 0.70, 0.80), (5, 0.80, 0.89), (10, 0.88, 0.94)])
def test_how_often_a_nominal_95_percent_covers(n, low, high, monkeypatch):
    """Why few runs get no interval: of 2 000 normal samples, in how many does it hold the true mean?"""
    monkeypatch.setattr("maze_runtime.series.bootstrap.MIN_RUNS", 2)
    random = np.random.default_rng(0)
    intervals = [bootstrap_interval([random.normal(size=n)], mean, n_resamples=500) for _ in range(2000)]
    covered = np.mean([interval.low <= 0.0 <= interval.high for interval in intervals])
    assert low < covered < high
