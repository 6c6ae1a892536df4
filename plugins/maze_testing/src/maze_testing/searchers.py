"""Conformance of searchers: every draw lies in the space, trials run in parallel and end in any order, sweeps go on.

Beside the suite stand the parts it is made of: a space with every kind of leaf, and trials without runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from maze_sweeps.contract import PastTrial, SearchContext, Searcher
from maze_sweeps.space import Branch, Choice, Draw, Leaf, Range, Space, Values
from maze_testing.conformance import require

_CRITIC = Choice(
    name="trainer[sac].critic",
    path="trainer.critic",
    branches=(
        Branch(label="twin", settings={"trainer.critic": "twin"}),
        Branch(
            label="many",
            settings={"trainer.critic": "many"},
            leaves=(
                Range(name="trainer[sac].critic[many].n", path="trainer.n", low=2, high=10, points=2, is_integer=True),
            ),
        ),
    ),
)
_TRAINER = Choice(
    name="trainer",
    path="trainer",
    branches=(
        Branch(
            label="ppo",
            settings={"trainer": {"use": "ppo"}},
            leaves=(Range(name="trainer[ppo].clip", path="trainer.clip", low=0.1, high=0.4, points=2),),
        ),
        Branch(
            label="sac",
            settings={"trainer": {"use": "sac"}},
            leaves=(
                Range(name="trainer[sac].tau", path="trainer.tau", low=0.001, high=0.1, log=True, points=3),
                _CRITIC,
            ),
        ),
        Branch(label="plain", settings={"trainer": {"use": "a2c"}}),
    ),
)
SPACE = Space(
    leaves=(
        Values(name="units", path="model.units", values=([64, 64], [256], {"a": 1, "b": [True]}, [])),
        Values(name="mixed", path="env.mixed", values=(1, 2.5, "x", False)),
        Values(name="equal", path="env.equal", values=(1, True, 1.5)),
        Range(name="trainer.lr", path="trainer.lr", low=1e-5, high=1e-2, log=True, points=4),
        Range(name="scale", path="wrappers.scale", low=-1.0, high=1.0, points=3),
        Range(name="share", path="trainer.share", low=0.1, high=0.95, step=0.1),
        Range(name="vector.n_envs", path="vector.n_envs", low=8, high=63, step=8, is_integer=True),
        Range(name="batch", path="trainer.batch", low=1, high=4096, log=True, points=4, is_integer=True),
        Range(name="fixed", path="trainer.fixed", low=2.0, high=2.0, points=1),
        _TRAINER,
    )
)
"""Every kind of leaf: a choice in a choice, branches with leaves and without; ranges with steps, logarithms and
integers, one with a single number; lists, tables, and values that are equal but for their type."""

ENDS = ("done", "done", "done", "failed", "done")
"""How trials of these numbers end, and so on in turn."""


def check_searcher(
    factory: Callable[[SearchContext], Searcher], folder: Path, *, n_trials: int = 12, repeats: bool = True
) -> None:
    """Propose trials, several at a time, report and finish them in another order; go on in a second searcher.

    Args:
        factory: the searcher's target with its options bound; it takes ranges with and without `step`.
        folder: an empty one.
        n_trials: that are tried; the searcher has as many at least.
        repeats: whether a sweep that goes on proposes what it would have proposed undisturbed.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    for maximize in (True, False):
        context = _context(folder / f"one-{maximize}", n_trials, maximize)
        draws = _search(factory(context), n_trials)
        again = _search(factory(_context(folder / f"two-{maximize}", n_trials, maximize)), n_trials)
        require(draws == again, "what a searcher draws follows from the seed and from the trials so far")
        _check_going_on(factory, folder / f"three-{maximize}", n_trials, maximize, repeats)
    _check_number_of_trials(factory, folder / "few")


def require_draw(space: Space, draw: Draw) -> None:
    """Raise unless a draw has a value for each leaf that applies and for no other, and each lies in its leaf.

    Raises:
        ConformanceError: naming the leaf.
    """
    try:
        reached = list(space.reached(draw))
    except KeyError as error:
        require(False, f"the draw {dict(draw)} has no value, or no known label, at {error}")
        return
    names = [leaf.name for leaf in reached]
    require(set(draw) == set(names), f"a draw has the leaves that apply, {names}, and no others: {sorted(draw)}")
    for leaf in reached:
        require(_lies_in(leaf, draw[leaf.name]), f"{draw[leaf.name]!r} does not lie in the leaf {leaf}")
    require(json.loads(json.dumps(draw)) == draw, f"trial.json keeps a draw: {dict(draw)}")


def value_of(draw: Draw) -> float:
    """A number that follows from a draw, and tells settings apart."""
    return float(sum(v if isinstance(v, (int, float)) else len(str(v)) for v in draw.values()) % 7.3)


def past_trial(
    number: int,
    draw: Draw,
    state: str = "running",
    value: float | None = None,
    reports: Sequence[tuple[int, float]] = (),
) -> PastTrial:
    """A trial as the folder of a sweep keeps it."""
    return PastTrial(number=number, draw=json.loads(json.dumps(draw)), state=state, value=value, reports=reports)


def play_trials(
    searcher: Searcher,
    numbers: Iterable[int],
    trials: list[PastTrial],
    *,
    space: Space | None = None,
    at_a_time: int = 1,
    newest_first: bool = False,
    n_reports: int = 3,
    ends: Sequence[str] = ENDS,
    objective: Callable[[Draw], float] = value_of,
) -> None:
    """Trials of these numbers, proposed, reported and finished.

    Args:
        trials: is filled as the folder of a sweep is.
        space: that every draw has to be one of; None: not looked at.
        at_a_time: how many run beside each other.
        newest_first: which of them ends, the one that was begun last or the one that runs longest.
        n_reports: of each trial, every 1000 steps.
        ends: how trials of these numbers end, and so on in turn.
        objective: the value of a draw.

    Raises:
        ConformanceError: the searcher ended too early, or a draw is none of the space.
    """
    running: list[int] = []
    for number in numbers:
        draw = searcher.propose(number)
        require(draw is not None, f"a searcher has as many trials as it was asked for; it ended at {number}")
        assert draw is not None
        if space is not None:
            require_draw(space, draw)
        trials.append(past_trial(number, draw))
        running.append(number)
        while len(running) >= at_a_time:
            ended = running.pop(-1 if newest_first else 0)
            end_trial(searcher, ended, trials, n_reports=n_reports, ends=ends, objective=objective)
    for number in running:
        end_trial(searcher, number, trials, n_reports=n_reports, ends=ends, objective=objective)


def end_trial(
    searcher: Searcher,
    number: int,
    trials: list[PastTrial],
    *,
    n_reports: int = 3,
    ends: Sequence[str] = ENDS,
    objective: Callable[[Draw], float] = value_of,
) -> None:
    """Report a trial as training would, from where it is, and finish it; see `play_trials`."""
    draw, reports = trials[number].draw, list(trials[number].reports)
    state, value = ends[number % len(ends)], objective(draw)
    told: float | None = None if state == "failed" else value
    for step in range(1000 * (len(reports) + 1), 1000 * n_reports + 1, 1000):
        reports.append((step, value * step / 1000))
        gives_up = searcher.report(number, *reports[-1])
        require(isinstance(gives_up, bool), f"report says whether to give a trial up, True or False: {gives_up!r}")
        if gives_up:
            state, told = "pruned", reports[-1][1]
            break
    searcher.finish(number, state, told)
    trials[number] = past_trial(number, draw, state, told, reports)


def _context(folder: Path, n_trials: int, maximize: bool) -> SearchContext:
    folder.mkdir(parents=True)
    return SearchContext(name="toy", space=SPACE, n_trials=n_trials, maximize=maximize, seed=3, folder=folder)


_ANY_END = (*ENDS, "pruned", "done")
"""A diverged trial has ended as a pruned one, without the searcher's asking."""


def _search(searcher: Searcher, n_trials: int) -> list[Draw]:
    """Three at a time, of which the newest ends first."""
    trials: list[PastTrial] = []
    play_trials(searcher, range(n_trials), trials, space=SPACE, at_a_time=3, newest_first=True, ends=_ANY_END)
    draws = [trial.draw for trial in trials]
    shares = dict(searcher.importances())
    leaves = {leaf.name for draw in draws for leaf in SPACE.reached(draw)}
    require(set(shares) <= leaves, f"importances are those of leaves: {shares}")
    require(
        not shares or (min(shares.values()) >= 0 and math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6)),
        f"importances are together 1: {shares}",
    )
    searcher.close()
    return draws


def _check_going_on(
    factory: Callable[[SearchContext], Searcher], folder: Path, n_trials: int, maximize: bool, repeats: bool
) -> None:
    """Of two equal searchers one is left as by a crash: one trial runs, another one has ended since."""
    whole = factory(_context(folder / "whole", n_trials, maximize))
    undisturbed = _begin(whole)
    end_trial(whole, 2, undisturbed)
    trials = list(undisturbed)
    _finish(whole, undisturbed, n_trials)
    context = _context(folder / "cut", n_trials, maximize)
    _begin(factory(context))
    second = factory(attrs.evolve(context))
    second.restore(trials)
    _finish(second, trials, n_trials)
    for one, other in zip(trials, undisturbed, strict=True):
        same = not repeats or one.draw == other.draw
        require(same, f"after a resume trial {one.number} is what it would have been")


def _begin(searcher: Searcher) -> list[PastTrial]:
    """Three trials, of which the first one ends and the second one is reported once."""
    trials: list[PastTrial] = []
    for number in range(3):
        draw = searcher.propose(number)
        require(draw is not None, f"a searcher has as many trials as it was asked for; it ended at {number}")
        trials.append(past_trial(number, draw or {}))
    end_trial(searcher, 0, trials)
    report = (1000, value_of(trials[1].draw))
    searcher.report(1, *report)
    trials[1] = attrs.evolve(trials[1], reports=(report,))
    return trials


def _finish(searcher: Searcher, trials: list[PastTrial], n_trials: int) -> None:
    end_trial(searcher, 1, trials)
    play_trials(searcher, range(3, n_trials), trials, space=SPACE)
    searcher.close()


def _check_number_of_trials(factory: Callable[[SearchContext], Searcher], folder: Path) -> None:
    searcher = factory(_context(folder, 2, True))
    play_trials(searcher, range(2), [])
    searcher.close()


def _lies_in(leaf: Leaf, value: Any) -> bool:
    if isinstance(leaf, Choice):
        return value in [branch.label for branch in leaf.branches]
    if isinstance(leaf, Values):
        return any(type(value) is type(one) and value == one for one in leaf.values)
    if type(value) is not (int if leaf.is_integer else float) or not leaf.low <= value <= leaf.high:
        return False
    if leaf.step is None:
        return True
    steps = (value - leaf.low) / leaf.step
    return math.isclose(steps, round(steps), abs_tol=1e-9)
