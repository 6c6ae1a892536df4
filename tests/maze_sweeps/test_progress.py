"""What is said while a sweep runs."""

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.contracts.logger import Outcome
from maze_runtime.series.run_actor import RunReport
from maze_sweeps.progress import HEADER, SweepProgress
from maze_sweeps.trials import RunKey, SeedRun, SweepTrial


class Table:
    """Keeps what it is given."""

    def __init__(self):
        self.lines, self.rows, self.caption = [], [], ""

    def say(self, line):
        self.lines.append(line)

    def show(self, rows, caption):
        self.rows, self.caption = rows, caption


def trial(number, state="running", value=None, **changes):
    seeds = {1: SeedRun(seed=1), 2: SeedRun(seed=2)}
    draw = {"trainer.lr": 0.001 * (number + 1), "trainer.tags": [1, 2]}
    return SweepTrial(number=number, draw=draw, settings={}, state=state, value=value, seeds=seeds, **changes)


def report(epoch, seconds, ended=False):
    outcome = Outcome(status="done", reason="all") if ended else None
    return RunReport(epoch=epoch, env_steps=100 * epoch, wall_seconds=seconds, outcome=outcome)


@pytest.fixture
def shown(folder):
    table = Table()
    progress = SweepProgress(table, n_trials=4, n_seeds=2, n_confirm=3, n_parallel=2, minimize=False)
    return progress, table, load_experiment(folder / "small.toml")


def test_runs_have_a_row_with_their_share_and_their_last_value(shown):
    progress, table, loaded = shown
    key, run = RunKey(1, 7, True), SeedRun(seed=7, reports=[(1, 100, 2.5)])
    progress.begin(key, loaded)
    progress.show({1: trial(1)})
    assert table.rows == [["1", "7 (confirms)", "0%", "", "", "trainer.lr=0.002, trainer.tags=[1, 2]"]]
    progress.report(key, report(1, 2.0), run)
    progress.show({1: trial(1)})
    (row,) = table.rows
    assert len(row) == len(HEADER)
    assert row[:5] == ["1", "7 (confirms)", "33%", "100", "2.5"]


def test_the_time_left_is_that_of_the_runs_left(shown):
    progress, table, loaded = shown
    trials = {0: trial(0, "done", 3.0), 1: trial(1)}
    assert progress.seconds_left(trials) is None
    for seed in (1, 2):
        progress.begin(RunKey(0, seed), loaded)
        progress.end(RunKey(0, seed), report(3, 60.0, ended=True))
    # Three trials of two seeds and three runs that confirm, at 60 seconds, two at a time.
    assert progress.seconds_left(trials) == 9 * 60 / 2
    trials[1].seeds[1].state = "done"
    assert progress.seconds_left(trials) == 8 * 60 / 2
    progress.begin(RunKey(1, 2), loaded)
    progress.report(RunKey(1, 2), report(1, 20.0), trials[1].seeds[2])
    assert progress.seconds_left(trials) == pytest.approx((8 - 1 / 3) * 60 / 2)
    progress.show(trials)
    assert table.caption == "1 of 4 trials, best 3 of trial 0, about 0:03:50 left"


def test_every_trial_that_ends_is_a_line(shown):
    progress, table, _ = shown
    trials = {0: trial(0, "done", 3.0), 1: trial(1, "pruned", 1.0, reason="given up after epoch 1"), 2: trial(2)}
    progress.ended(trials[0], trials)
    progress.ended(trials[1], trials)
    progress.confirmed(trial(0, "done", 3.0, confirmed=2.0, confirm={4: SeedRun(seed=4, state="done")}))
    progress.confirmed(trial(0, "done", 3.0, confirm={4: SeedRun(seed=4, state="failed")}))
    assert table.lines == [
        "[2/4] trial 0: done, 3, the best so far; trainer.lr=0.001, trainer.tags=[1, 2]",
        "[2/4] trial 1: pruned (given up after epoch 1), 1; best 3; trainer.lr=0.002, trainer.tags=[1, 2]",
        "trial 0: 2 on seeds never seen, 3 in the search",
        "trial 0: not confirmed, seed 4 failed, 3 in the search",
    ]
