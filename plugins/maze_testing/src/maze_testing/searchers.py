"""Conformance of searchers: every draw lies in the space, trials run in parallel and end in any order, sweeps go on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from maze_sweeps.contract import PastTrial, SearchContext, Searcher
from maze_sweeps.space import Branch, Choice, Draw, Leaf, Range, Space, Values
from maze_testing.conformance import require

SPACE = Space(
    leaves=(
        Choice(
            name="trainer",
            path="trainer",
            branches=(
                Branch(
                    label="ppo",
                    settings={"trainer": {"use": "ppo"}},
                    leaves=(
                        Range(name="trainer[ppo].lr", path="trainer.lr", low=1e-4, high=1e-1, log=True, points=3),
                        Values(name="trainer[ppo].tags", path="trainer.tags", values=([64, 64], [], ["a"])),
                    ),
                ),
                Branch(label="plain", settings={"trainer": {"use": "a2c"}}),
            ),
        ),
        Range(name="vector.n_envs", path="vector.n_envs", low=8, high=31, step=8, is_integer=True),
        Range(name="wrappers.0.scale", path="wrappers.0.scale", low=0.1, high=1.05, step=0.1, points=3),
        Range(name="env.size", path="env.size", low=1, high=1000, log=True, points=4, is_integer=True),
        Values(name="evaluation.deterministic", path="evaluation.deterministic", values=(True, False)),
    )
)
"""Every kind of leaf: branches with leaves and without; ranges with steps, logarithms and integers; lists."""


def check_searcher(
    factory: Callable[[SearchContext], Searcher], folder: Path, *, n_trials: int = 12, repeats: bool = True
) -> None:
    """Propose trials, several at a time, report and finish them in another order; go on in a second searcher.

    Args:
        factory: the searcher's target with its options bound; it takes ranges with and without `points`.
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
        _check_going_on(factory, folder / f"three-{maximize}", n_trials, maximize, draws if repeats else None)
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


def toy_value(draw: Draw) -> float:
    """A deterministic value of a draw of `SPACE`."""
    lr = draw.get("trainer[ppo].lr", 1e-4)
    return float(draw["vector.n_envs"] / 32 - abs(math.log10(lr) + 2.0) - abs(draw["wrappers.0.scale"] - 0.5))


def _context(folder: Path, n_trials: int, maximize: bool) -> SearchContext:
    folder.mkdir(parents=True)
    return SearchContext(name="toy", space=SPACE, n_trials=n_trials, maximize=maximize, seed=3, folder=folder)


def _search(searcher: Searcher, n_trials: int) -> list[Draw]:
    """Three at a time, the last of them ends first; one in five fails, one in five is given up."""
    draws: list[Draw] = []
    while len(draws) < n_trials:
        batch = range(len(draws), min(len(draws) + 3, n_trials))
        for number in batch:
            draw = searcher.propose(number)
            require(draw is not None, f"a searcher has as many trials as it was asked for; it ended at {number}")
            assert draw is not None
            require_draw(SPACE, draw)
            draws.append(dict(draw))
        for number in reversed(batch):
            _end(searcher, number, draws[number])
    shares = dict(searcher.importances())
    leaves = {leaf.name for draw in draws for leaf in SPACE.reached(draw)}
    require(set(shares) <= leaves, f"importances are those of leaves: {shares}")
    require(
        not shares or (min(shares.values()) >= 0 and math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6)),
        f"importances are together 1: {shares}",
    )
    searcher.close()
    return draws


def _end(searcher: Searcher, number: int, draw: Draw) -> None:
    value = toy_value(draw)
    gives_up = searcher.report(number, 100, value / 2)
    require(isinstance(gives_up, bool), f"report says whether to give a trial up, True or False: {gives_up!r}")
    if number % 5 == 4:
        searcher.finish(number, "failed", None)
    elif gives_up or number % 5 == 3:
        searcher.finish(number, "pruned", value / 2 if number % 2 else None)
    else:
        searcher.report(number, 200, value)
        searcher.finish(number, "done", value)


def _check_going_on(
    factory: Callable[[SearchContext], Searcher], folder: Path, n_trials: int, maximize: bool, draws: list[Draw] | None
) -> None:
    """The first one is left in the middle, as by a crash: one trial runs, another one has ended since."""
    context = _context(folder, n_trials, maximize)
    first = factory(context)
    proposed: list[Any] = [first.propose(number) for number in range(3)]
    _end(first, 0, proposed[0])
    first.report(1, 100, toy_value(proposed[1]) / 2)
    past = [
        PastTrial(number=0, draw=proposed[0], state="done", value=toy_value(proposed[0]), reports=((100, 0.0),)),
        PastTrial(number=1, draw=proposed[1], state="running", reports=((100, toy_value(proposed[1]) / 2),)),
        PastTrial(number=2, draw=proposed[2], state="done", value=toy_value(proposed[2])),
    ]
    second = factory(attrs.evolve(context))
    second.restore(past)
    second.report(1, 200, toy_value(proposed[1]))
    second.finish(1, "done", toy_value(proposed[1]))
    for number in range(3, n_trials):
        draw = second.propose(number)
        require(draw is not None, f"after a resume a searcher has as many trials as before; it ended at {number}")
        assert draw is not None
        require_draw(SPACE, draw)
        if draws is not None:
            require(dict(draw) == draws[number], f"after a resume trial {number} is what it would have been")
        _end(second, number, draw)
    second.close()


def _check_number_of_trials(factory: Callable[[SearchContext], Searcher], folder: Path) -> None:
    searcher = factory(_context(folder, 2, True))
    for number in range(2):
        draw = searcher.propose(number)
        require(draw is not None, "a searcher has as many trials as it was asked for")
        assert draw is not None
        _end(searcher, number, draw)
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
