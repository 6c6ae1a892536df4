"""What every searcher must do, in words of its contract alone: nothing here knows which searcher it is."""

import json
import math

from maze_sweeps.contract import PastTrial
from maze_sweeps.space import Choice, Range


def check_draw(space, draw):
    """A draw has a value for each leaf that applies and for no other, of its type, in its range and on its steps."""
    met = []

    def check(leaf):
        met.append(leaf.name)
        value = draw[leaf.name]
        if isinstance(leaf, Choice):
            assert value in [branch.label for branch in leaf.branches]
        elif isinstance(leaf, Range):
            assert type(value) is (int if leaf.is_integer else float)
            assert leaf.low <= value <= leaf.high
            if leaf.step is not None:
                steps = (value - leaf.low) / leaf.step
                assert math.isclose(steps, round(steps), abs_tol=1e-6)
        else:
            assert any(type(value) is type(one) and value == one for one in leaf.values)
        return value

    space.walk(check)
    assert set(draw) == set(met)
    assert json.loads(json.dumps(draw)) == draw  # trial.json keeps it
    space.settings(draw)


def value_of(draw):
    """A number that follows from a draw, and tells settings apart."""
    return sum(value if isinstance(value, (int, float)) else len(str(value)) for value in draw.values()) % 7.3


def past(number, draw, state="running", value=None, reports=()):
    """A trial as the folder of a sweep keeps it."""
    return PastTrial(number=number, draw=json.loads(json.dumps(draw)), state=state, value=value, reports=reports)


def play(searcher, numbers, trials, at_a_time=1, n_reports=3, objective=value_of):
    """Trials of these numbers with reports and ends; `trials` is filled as the folder of a sweep is."""
    running = []
    for number in numbers:
        draw = searcher.propose(number)
        trials.append(past(number, draw))
        running.append(number)
        while len(running) >= at_a_time:
            end(searcher, running.pop(0), trials, n_reports, objective)
    for number in running:
        end(searcher, number, trials, n_reports, objective)


def end(searcher, number, trials, n_reports=3, objective=value_of):
    """Report a trial as training would, from where it is, and finish it."""
    draw, reports = trials[number].draw, list(trials[number].reports)
    for step in range(1000 * (len(reports) + 1), 1000 * n_reports + 1, 1000):
        value = objective(draw) * step / 1000
        reports.append((step, value))
        if searcher.report(number, step, value):
            searcher.finish(number, "pruned", value)
            trials[number] = past(number, draw, "pruned", value, reports)
            return
    value = objective(draw)
    state = ("done", "done", "done", "failed", "done")[number % 5]
    searcher.finish(number, state, None if state == "failed" else value)
    trials[number] = past(number, draw, state, None if state == "failed" else value, reports)
