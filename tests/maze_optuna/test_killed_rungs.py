"""Successive halving whose process is killed while it answers: what it was about to answer is what it answers later."""

import json
import multiprocessing
import os
import signal
import sys

import attrs
import optuna
import pytest

from maze_optuna.options import OptunaOptions
from maze_optuna.searcher import OptunaSearcher
from maze_sweeps.contract import PastTrial
from maze_testing.searchers import past_trial

REPORTS = (
    ((1000, 5.0), (3000, 6.0)),
    ((3000, 7.0),),
    ((3000, 6.5),),
    ((1000, 8.0), (2000, 8.0), (3000, 6.9)),
    ((3000, 9.0),),
    ((3000, 8.5),),
    ((1000, 4.0), (3000, 4.0)),
    ((1000, 9.5), (2000, 9.0), (3000, 9.5), (9000, 9.5)),
)
"""What trials report, one trial after the other; some pass two rungs at once."""


def play(searcher, trials, file):
    """As a sweep does: what is known is written first and told then, and what was told last is told again later."""

    def keep(trial):
        trials[trial.number : trial.number + 1] = [trial]
        file.write_text(json.dumps([attrs.asdict(one) for one in trials]))

    for number, reports in enumerate(REPORTS):
        if number == len(trials):
            keep(past_trial(number, searcher.propose(number)))
        trial = trials[number]
        if trial.state != "running":
            continue
        state = "done"
        for index in range(max(0, len(trial.reports) - 1), len(reports)):
            trial = attrs.evolve(trial, reports=reports[: index + 1])
            keep(trial)
            if searcher.report(number, *reports[index]):
                state = "pruned"
                break
        keep(attrs.evolve(trial, state=state, value=trial.reports[-1][1]))
        searcher.finish(number, state, trial.reports[-1][1])
    return [
        (trial.state.name, trial.value, dict(trial.intermediate_values), rungs(trial))
        for trial in searcher._study.get_trials()
    ]


def rungs(trial):
    return {name: value for name, value in trial.system_attrs.items() if name.startswith("completed_rung")}


def play_until_killed(context, options, file, n_writes):
    """Kill this process right after it has stored that a trial took part in a rung, for the `n_writes`th time."""
    store = optuna.storages.JournalStorage.set_trial_system_attr
    left = [n_writes]

    def store_and_die(*arguments):
        store(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    optuna.storages.JournalStorage.set_trial_system_attr = store_and_die
    play(OptunaSearcher(context, options), [], file)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize("pruner", ["successive-halving", "hyperband"])
def test_a_kill_within_an_answer_changes_nothing(make_context, tmp_path, pruner):
    options = OptunaOptions(sampler="random", pruner=pruner, min_resource=1000, storage="journal")
    (tmp_path / "whole").mkdir()
    whole = play(OptunaSearcher(make_context(folder=tmp_path / "whole"), options), [], tmp_path / "whole.json")
    states = [state for state, *_ in whole]
    assert 0 < states.count("PRUNED") < len(states)
    for n_writes in range(1, 1 + sum(len(passed) for *_, passed in whole)):
        context, file = make_context(folder=tmp_path / str(n_writes)), tmp_path / f"{n_writes}.json"
        context.folder.mkdir()
        process = multiprocessing.get_context("fork").Process(
            target=play_until_killed, args=(context, options, file, n_writes)
        )
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        trials = [
            PastTrial(**{**row, "reports": [tuple(one) for one in row["reports"]]})
            for row in json.loads(file.read_text())
        ]
        searcher = OptunaSearcher(context, options)
        searcher.restore(trials)
        assert play(searcher, trials, file) == whole, n_writes
