"""Grids and random search, beside slow ways to do the same."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from maze_sweeps.contract import SearchContext
from maze_sweeps.grid import GridSearcher, grid_size
from maze_sweeps.random_search import RandomSearcher
from maze_sweeps.ranges import draw_value, grid_values
from maze_sweeps.space import Branch, Choice, Range, Space, Values
from maze_testing.conformance import ConformanceError
from maze_testing.searchers import check_searcher, require_draw


def number_range(low, high, **options):
    return Range(name="x", path="x", low=low, high=high, **options)


def values(name, n):
    return Values(name=name, path=name, values=tuple(range(n)))


def context(space, tmp_path, n_trials=0, seed=0):
    return SearchContext(name="s", space=space, n_trials=n_trials, maximize=True, seed=seed, folder=tmp_path)


NESTED = Space(
    leaves=(
        values("a", 2),
        Choice(
            name="b",
            path="b",
            branches=(
                Branch(label="none", settings={}),
                Branch(
                    label="some",
                    settings={},
                    leaves=(
                        values("b[some].x", 3),
                        Choice(
                            name="b[some].y",
                            path="b.y",
                            branches=(
                                Branch(label="0", settings={}, leaves=(values("b[some].y[0].z", 2),)),
                                Branch(label="1", settings={}),
                            ),
                        ),
                    ),
                ),
            ),
        ),
        Range(name="c", path="c", low=0.0, high=1.0, points=3),
    )
)


def slowly(leaves):
    """All draws by brute force: the product over every leaf there is, without what does not apply, each once."""
    everything = {}
    for leaf in leaves:
        everything |= dict(_domains(leaf))
    found = []
    for combination in itertools.product(*everything.values()):
        wanted = dict(zip(everything, combination, strict=True))
        draw = Space(leaves=tuple(leaves)).walk(lambda leaf, wanted=wanted: wanted[leaf.name])
        if draw not in found:
            found.append(draw)
    return found


def _domains(leaf):
    if isinstance(leaf, Choice):
        yield leaf.name, [branch.label for branch in leaf.branches]
        for branch in leaf.branches:
            for inner in branch.leaves:
                yield from _domains(inner)
    else:
        yield leaf.name, leaf.values if isinstance(leaf, Values) else [0.0, 0.5, 1.0]


def test_a_grid_has_every_combination_once_in_the_order_of_nested_loops(tmp_path):
    searcher = GridSearcher(context(NESTED, tmp_path))
    draws = list(itertools.takewhile(lambda draw: draw is not None, map(searcher.propose, itertools.count())))
    assert draws == slowly(NESTED.leaves)
    assert len(draws) == searcher.n_trials == grid_size(NESTED.leaves) == 2 * (1 + 3 * (2 + 1)) * 3


def test_a_number_of_trials_ends_a_grid(tmp_path):
    searcher = GridSearcher(context(NESTED, tmp_path, n_trials=4))
    assert [searcher.propose(number) for number in (3, 4)] == [slowly(NESTED.leaves)[3], None]


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (number_range(0.0, 1.0, points=5), [0.0, 0.25, 0.5, 0.75, 1.0]),
        (number_range(1e-4, 1e-2, points=3, log=True), [1e-4, 1e-3, 1e-2]),
        (number_range(1e-5, 1e-1, points=5, log=True), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        (number_range(0.1, 0.7, step=0.2), [0.1, 0.3, 0.5, 0.7]),
        (number_range(0.1, 0.65, step=0.2), [0.1, 0.3, 0.5]),
        (number_range(0.1, 0.9, step=0.1, points=3), [0.1, 0.5, 0.9]),
        (number_range(8, 64, step=8, is_integer=True), [8, 16, 24, 32, 40, 48, 56, 64]),
        (number_range(1, 3, points=9, is_integer=True), [1, 2, 3]),
        (number_range(1, 1000, points=4, log=True, is_integer=True), [1, 10, 100, 1000]),
        (number_range(3, 3, points=2, is_integer=True), [3]),
        (number_range(0.5, 2.5, points=1), [0.5]),
        (number_range(0.0, 1.0), []),
    ],
)
def test_the_points_of_a_range(leaf, expected):
    found = grid_values(leaf)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


def test_steps_say_the_decimal_numbers():
    leaf = number_range(0.0, 100.0, step=0.1)
    assert grid_values(leaf) == [float(f"{i // 10}.{i % 10}") for i in range(1001)]


def draws(leaf, n=4000):
    random = np.random.default_rng(1)
    return [draw_value(leaf, random) for _ in range(n)]


def test_random_numbers_are_uniform_and_with_log_their_logarithms_are():
    found = draws(number_range(-2.0, 3.0))
    assert stats.kstest(found, stats.uniform(-2.0, 5.0).cdf).pvalue > 0.01
    found = draws(number_range(1e-5, 1e-1, log=True))
    assert stats.kstest(found, stats.loguniform(1e-5, 1e-1).cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("leaf", "probabilities"),
    [
        (number_range(3, 6, is_integer=True), dict.fromkeys((3, 4, 5, 6), 1 / 4)),
        (number_range(0, 20, step=6, is_integer=True), dict.fromkeys((0, 6, 12, 18), 1 / 4)),
        (number_range(0.0, 0.5, step=0.2), dict.fromkeys((0.0, 0.2, 0.4), 1 / 3)),
        (
            number_range(1, 5, log=True, is_integer=True),
            {k: math.log((k + 0.5) / (k - 0.5)) / math.log(5.5 / 0.5) for k in range(1, 6)},
        ),
    ],
)
def test_random_integers_and_steps_have_their_share(leaf, probabilities):
    found = draws(leaf)
    assert set(found) == set(probabilities)
    counts = [found.count(value) for value in probabilities]
    expected = [len(found) * share for share in probabilities.values()]
    assert stats.chisquare(counts, expected).pvalue > 0.01


def test_a_random_trial_follows_from_seed_and_number_alone(tmp_path):
    one = RandomSearcher(context(NESTED, tmp_path, 50, seed=4))
    other = RandomSearcher(context(NESTED, tmp_path, 50, seed=4))
    forward = [one.propose(number) for number in range(50)]
    assert [other.propose(number) for number in reversed(range(50))] == forward[::-1]
    assert one.propose(50) is None
    assert [RandomSearcher(context(NESTED, tmp_path, 50, seed=5)).propose(i) for i in range(50)] != forward
    for draw in forward:
        require_draw(NESTED, draw)


@pytest.mark.parametrize("searcher", [GridSearcher, RandomSearcher])
def test_the_searchers_conform(searcher, tmp_path):
    check_searcher(searcher, tmp_path)


class Forgetful(RandomSearcher):
    def propose(self, number):
        draw = dict(super().propose(number))
        draw.pop("batch")
        return draw


class Unseeded(RandomSearcher):
    def propose(self, number):
        return self._context.space.walk(
            lambda leaf: (
                leaf.branches[0].label
                if isinstance(leaf, Choice)
                else leaf.values[0]
                if isinstance(leaf, Values)
                else draw_value(leaf, np.random.default_rng())
            )
        )


class Restarting(RandomSearcher):
    def restore(self, trials):
        self._n_past = len(trials)

    def propose(self, number):
        return super().propose(number - getattr(self, "_n_past", 0))


class Wide(RandomSearcher):
    def propose(self, number):
        return {**super().propose(number), "vector.n_envs": 33}


class Talkative(RandomSearcher):
    def report(self, number, step, value):
        return None


@pytest.mark.parametrize(
    ("searcher", "rule"),
    [
        (Forgetful, "a draw has the leaves that apply"),
        (Unseeded, "follows from the seed"),
        (Restarting, "is what it would have been"),
        (Wide, "does not lie in the leaf"),
        (Talkative, "True or False"),
    ],
)
def test_what_is_wrong_with_a_searcher_is_found(searcher, rule, tmp_path):
    with pytest.raises(ConformanceError, match=rule):
        check_searcher(searcher, tmp_path)
