"""Run by test_optuna_resume.py: a sweep without runs, which keeps `trials/` as a driver does, until it is killed.

Arguments: folder, storage, sampler. A trial is written down before it runs and when it has ended; a folder that has
trials is gone on with. "begun NUMBER" and "reported NUMBER STEP" are printed, so that the test knows when to kill.
"""

import json
import sys
from pathlib import Path

import attrs

from maze_optuna.options import OptunaOptions
from maze_optuna.searcher import OptunaSearcher
from maze_sweeps.contract import PastTrial, SearchContext
from maze_testing.searchers import SPACE, past_trial, value_of

N_TRIALS = 12
STEPS = (1000, 2000, 3000)


def write(folder, trial):
    path = folder / f"{trial.number:04}.json"
    path.with_suffix(".tmp").write_text(json.dumps(attrs.asdict(trial)))
    path.with_suffix(".tmp").replace(path)


def read(folder):
    return [PastTrial(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def run(folder, storage, sampler):
    context = SearchContext(name="poles", space=SPACE, n_trials=N_TRIALS, maximize=True, seed=7, folder=folder)
    searcher = OptunaSearcher(context, OptunaOptions(storage=storage, sampler=sampler, pruner="median"))
    places = folder / "trials"
    places.mkdir(exist_ok=True)
    trials = read(places)
    if (folder / "begun").exists():
        searcher.restore(trials)
    (folder / "begun").touch()
    for number in range(N_TRIALS):
        if number < len(trials) and trials[number].state != "running":
            continue
        if number >= len(trials):
            trials.append(past_trial(number, searcher.propose(number)))
            write(places, trials[number])
        print("begun", number, flush=True)
        trials[number] = train(searcher, places, trials[number])
        write(places, trials[number])
    print("importances", json.dumps(dict(searcher.importances())))
    searcher.close()


def train(searcher, places, trial):
    """From the last report on, as a run goes on from its checkpoint."""
    reports = [tuple(report) for report in trial.reports]
    value = value_of(trial.draw)
    for step in STEPS[len(reports) :]:
        given_up = searcher.report(trial.number, step, value * step)
        print("reported", trial.number, step, flush=True)
        if given_up:
            reports.append((step, value * step))
            searcher.finish(trial.number, "pruned", value * step)
            return attrs.evolve(trial, state="pruned", value=value * step, reports=reports)
        reports.append((step, value * step))
        write(places, attrs.evolve(trial, reports=reports))
    searcher.finish(trial.number, "done", value)
    return attrs.evolve(trial, state="done", value=value, reports=reports)


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
