"""Which trials are given up: median against Optuna's own, curves of different steps, and when halving begins."""

import math
import random

import optuna
import pytest

from maze_optuna.pruning import CurveMedianPruner
from maze_sweeps.space import Range, Space

SPACE = Space(leaves=(Range(name="x", path="x", low=0.0, high=1.0),))


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("n_warmup_steps", [0, 3])
def test_the_median_decides_as_optunas_own_where_all_report_at_the_same_steps(direction, n_warmup_steps):
    chance = random.Random(direction + str(n_warmup_steps))
    ours = optuna.create_study(direction=direction, pruner=CurveMedianPruner(3, n_warmup_steps))
    theirs = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=n_warmup_steps)
    decisions = set()
    for _ in range(40):
        trial = ours.ask()
        values = [chance.choice([math.nan, *(chance.random() for _ in range(9))]) for _ in range(5)]
        for step, value in enumerate(values):
            trial.report(value, step)
            stored = ours.trials[trial.number]
            decisions.add((decision := trial.should_prune(), step < n_warmup_steps))
            assert decision == theirs.prune(ours, stored)
            if decision:
                ours.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            ours.tell(trial, chance.random())
    assert (True, False) in decisions
    assert (True, True) not in decisions


def test_the_median_compares_curves_of_different_steps(make_searcher):
    """Finished trials reported every 1000 steps, this one at 1536: what they had at 1000 counts."""
    searcher = make_searcher(SPACE, sampler="random", pruner="median", n_unpruned_trials=2)
    for number in range(2):
        searcher.propose(number)
        for step in (1000, 2000):
            assert not searcher.report(number, step, step / 1000 + number)
        searcher.finish(number, "done", 2.0)
    for number, value in ((2, 1.4), (3, 1.6)):
        searcher.propose(number)
        assert not searcher.report(number, 512, 0.0)
        assert searcher.report(number, 1536, value) == (value < 1.5)


def test_nothing_is_given_up_before_enough_have_finished_or_in_the_warm_up(make_searcher):
    searcher = make_searcher(SPACE, sampler="random", pruner="median", n_unpruned_trials=3, n_warmup_steps=2000)
    for number in range(5):
        searcher.propose(number)
        given_up = [searcher.report(number, step, -float(number)) for step in (1000, 2000)]
        assert given_up == [False, number >= 3]
        searcher.finish(number, "pruned" if given_up[1] else "done", -float(number))


def test_a_run_that_only_knows_nan_is_given_up(make_searcher):
    searcher = make_searcher(SPACE, sampler="random", pruner="median", n_unpruned_trials=1)
    searcher.propose(0)
    searcher.report(0, 1000, 1.0)
    searcher.finish(0, "done", 1.0)
    searcher.propose(1)
    assert searcher.report(1, 1000, math.nan)


def test_halving_begins_at_a_hundredth_of_the_first_finished_trial(make_searcher):
    """Of 9 trials that follow, a third goes on at 1, 3, 9, 27 and 81 hundredths of its 20 000 steps."""
    searcher = make_searcher(SPACE, sampler="random", pruner="successive-halving")
    searcher.propose(0)
    for step in range(100, 20_001, 100):
        assert not searcher.report(0, step, 5.0)
    searcher.finish(0, "done", 5.0)
    reached = []
    for number in range(1, 10):
        searcher.propose(number)
        step = next((step for step in range(100, 20_001, 100) if searcher.report(number, step, number / 10)), 20_000)
        reached.append(step)
        searcher.finish(number, "pruned" if step < 20_000 else "done", number / 10)
    assert set(reached) <= {200, 600, 1800, 5400, 16_200, 20_000}
    assert max(reached) > 200


def test_halving_takes_trials_to_be_as_long_as_the_first_one_was_in_epochs_too(make_searcher):
    """Steps are epochs where no environment steps are taken: of 9 of them a trial may end after 1 and 3."""
    searcher = make_searcher(SPACE, sampler="random", pruner="successive-halving")
    reached = []
    for number in range(10):
        searcher.propose(number)
        step = next((step for step in range(1, 10) if searcher.report(number, step, -float(number))), 9)
        reached.append(step)
        searcher.finish(number, "pruned" if step < 9 else "done", -float(number))
    assert reached[0] == 9
    assert set(reached) == {1, 9}


@pytest.mark.parametrize("pruner", ["successive-halving", "hyperband"])
def test_the_best_of_many_is_never_given_up(make_searcher, pruner):
    searcher = make_searcher(SPACE, sampler="random", pruner=pruner, min_resource=1000, reduction_factor=2)
    ends = []
    for number in range(24):
        searcher.propose(number)
        value = float(number)
        given_up = any(searcher.report(number, step, value * step) for step in (1000, 2000, 4000, 8000))
        searcher.finish(number, "pruned" if given_up else "done", value * 8000)
        ends.append(given_up)
    assert not any(ends)


@pytest.mark.parametrize("pruner", ["successive-halving", "hyperband"])
def test_most_of_those_that_get_worse_are_given_up(make_searcher, pruner):
    searcher = make_searcher(SPACE, sampler="random", pruner=pruner, min_resource=1000, reduction_factor=2)
    n_steps = []
    for number in range(24):
        searcher.propose(number)
        steps = (1000, 2000, 4000, 8000)
        last = next((step for step in steps if searcher.report(number, step, -float(number))), None)
        searcher.finish(number, "done" if last is None else "pruned", -float(number))
        n_steps.append(last or 8000)
    assert n_steps[0] == 8000
    assert sum(n_steps) < 24 * 8000 * 2 / 3
