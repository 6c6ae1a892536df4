"""Whole sweeps: what is trained, what is written, what searchers are told, and what happens when things go wrong."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import ExperimentError, RequestError
from maze_runtime.context import RunContext
from maze_sweeps import sweep
from maze_sweeps.base_experiment import base_of_loaded
from maze_sweeps.folder import locked
from maze_testing.environments import Identity

REWARD = "BaseEnvEvents/reward/mean"
GRID = """
[searcher]
use = "grid"

[space]
trainer.lr = { values = [1e-3, 1e-1] }
wrappers.time-limit.max_episode_steps = { values = [4, 8] }
"""
INLINE = '\n[workers]\nuse = "inline"\n'
SUBPROCESS = '\n[workers]\nuse = "subprocess"\ncount = 2\n'
LR = "\n[space]\ntrainer.lr = { low = 1e-3, high = 1e-1, log = true }\n"


@pytest.fixture
def run(folder, monkeypatch):
    """`run(text, **options)`: the result of a sweep over `small.toml`."""
    monkeypatch.syspath_prepend(Path(__file__).parent)

    def run_text(text, **options):
        (folder / "sweep.toml").write_text('experiment = "small.toml"\n' + text)
        return sweep(folder / "sweep.toml", silent=True, **options)

    return run_text


def change(folder, old, new):
    text = (folder / "small.toml").read_text()
    assert old in text
    (folder / "small.toml").write_text(text.replace(old, new))


def table(path):
    with (path / "table.csv").open() as file:
        return list(csv.DictReader(file))


def evaluations(run_dir):
    rows = [json.loads(line) for line in (run_dir / "evaluations.jsonl").read_text().splitlines()]
    return [row["evaluation"][REWARD] for row in rows]


def told(path):
    return [tuple(json.loads(line)) for line in (path / "told.jsonl").read_text().splitlines()]


def test_a_grid_on_one_process_and_on_two_gives_one_table(run):
    inline = run(GRID + INLINE, out="one")
    parallel = run(GRID + SUBPROCESS, out="two")
    rows = table(inline.path)
    assert [(row["trainer.lr"], row["wrappers.time-limit.max_episode_steps"]) for row in rows] == [
        ("0.001", "4"),
        ("0.001", "8"),
        ("0.1", "4"),
        ("0.1", "8"),
    ]
    assert {row["status"] for row in rows} == {"done"}
    assert rows == table(parallel.path)
    best = max(float(row["value"]) for row in rows)
    assert inline.best.value == best
    for row in rows:
        values = evaluations(inline.path / "trials" / f"{int(row['number']):04d}" / "seed-1")
        assert float(row["value"]) == max(values)
        assert len(values) == 3


def test_what_is_in_the_folder(run, folder):
    result = run(GRID + INLINE, n_trials=2)
    assert result.path.parts[:2] == ("sweeps", "small")
    assert (result.path / "sweep.toml").read_text() == (folder / "sweep.toml").read_text()
    assert (result.path / "experiment.toml").read_text() == (folder / "small.toml").read_text()
    stored = json.loads((result.path / "sweep.json").read_text())
    assert (stored["name"], stored["metric"], stored["n_trials"]) == ("small", REWARD, 2)
    trial = json.loads((result.path / "trials/0001/trial.json").read_text())
    assert (trial["number"], trial["status"], trial["value"]) == (1, "done", result.trials[1].value)
    assert trial["parameters"] == {"trainer.lr": 1e-3, "wrappers.time-limit.max_episode_steps": 8}
    assert trial["set"] == ["trainer.lr=0.001", "wrappers.time-limit.max_episode_steps=8"]
    run_dir = result.path / "trials/0001/seed-1"
    record = json.loads((run_dir / "run.json").read_text())
    assert record["overrides"] == [*trial["set"], "seed=1"]
    assert record["experiment"]["trainer"]["lr"] == 1e-3
    page = (result.path / "report.html").read_text()
    assert "Sweep small" in page
    assert "trial 1" in page


def test_a_report_that_fails_is_no_failure_of_the_sweep(run, monkeypatch):
    def fail(*_args):
        raise OverflowError("too large")

    monkeypatch.setattr("maze_reports.report.report_page", fail)
    result = run("n_trials = 1\n" + LR + INLINE)
    assert result.best is not None
    assert not (result.path / "report.html").exists()


def test_the_best_experiment_is_a_file_that_trains_as_the_trial_did(run, maze):
    result = run(GRID + INLINE + "", out="found")
    done = maze("train", "found/best.toml", "--set", "seed=1", "--out", "again")
    assert done.exit_code == 0, done.output
    name = f"{result.best.number:04d}"
    one, other = (
        json.loads((Path(path) / "run.json").read_text()) for path in (f"found/trials/{name}/seed-1", "again")
    )
    assert one["experiment"] == other["experiment"]
    statistics = [Path(path) / "statistics/eval.csv" for path in (f"found/trials/{name}/seed-1", "again")]
    rewards = [[row["value"] for row in csv.DictReader(file.open()) if row["tag"] == REWARD] for file in statistics]
    assert rewards[0] == rewards[1]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mean", "min", "iqm"])
def test_the_objective_over_seeds(run, objective):
    text = f'n_trials = 2\nseeds = [3, 1, 2, 7, 8]\nobjective = "{objective}"\nvalue = "last"\n' + LR + INLINE
    result = run(text)
    for trial in result.trials:
        folder = result.path / "trials" / f"{trial.number:04d}"
        assert {path.name for path in folder.glob("seed-*")} == {f"seed-{seed}" for seed in (3, 1, 2, 7, 8)}
        values = np.array([evaluations(folder / f"seed-{seed}")[-1] for seed in (3, 1, 2, 7, 8)])
        wanted = {"mean": values.mean(), "min": values.min(), "iqm": np.sort(values)[1:-1].mean()}
        assert trial.value == pytest.approx(wanted[objective])


def test_less_is_better_after_a_minus(run):
    result = run(f'n_trials = 3\nmetric = "-{REWARD}"\n' + LR + INLINE)
    values = [min(evaluations(result.path / "trials" / f"{trial.number:04d}" / "seed-1")) for trial in result.trials]
    assert [trial.value for trial in result.trials] == values
    assert result.best.value == min(values)
    assert json.loads((result.path / "sweep.json").read_text())["metric"] == f"-{REWARD}"


def test_a_statistic_of_training_needs_no_evaluations(run, folder):
    change(folder, "n_episodes = 2", "n_episodes = 0")
    result = run('n_trials = 2\nmetric = "train_ActorCriticEvents/clip_fraction"\n' + LR + INLINE)
    assert [trial.state for trial in result.trials] == ["done", "done"]
    assert [len(trial.watched.reports) for trial in result.trials] == [3, 3]


def test_a_searcher_hears_of_every_evaluation_of_the_first_seed(run):
    result = run('n_trials = 2\nseeds = 2\n[searcher]\nuse = "scripted:Scribe"\n' + LR + INLINE)
    rows = told(result.path)
    for trial in result.trials:
        values = evaluations(result.path / "trials" / f"{trial.number:04d}" / "seed-1")
        reports = [row for row in rows if row[:2] == ("report", trial.number)]
        assert [value for *_, value in reports] == values
        steps = [step for _, _, step, _ in reports]
        assert steps == sorted(set(steps))
        assert [row for row in rows if row[:2] == ("finish", trial.number)] == [
            ("finish", trial.number, "done", trial.value)
        ]
    assert rows[-1] == ("close",)
    assert result.importances == {"trainer.lr": 1.0}


def test_a_searcher_hears_of_epochs_where_no_environment_steps_are_taken(run, folder, maze):
    played = maze("rollout", "small.toml", "--policy", "random", "--episodes", "4", "--record-to", "played")
    assert played.exit_code == 0, played.output
    text = (folder / "small.toml").read_text()
    trainer = text[text.index("[trainer]") : text.index("[checkpoint]")]
    cloning = f'[trainer]\nuse = "bc"\ndemonstrations = {{ path = "{folder / "played"}" }}\nn_epochs = 3\n\n'
    change(folder, trainer, cloning)
    loss = 'metric = "-train_ValidationEvents/policy_loss"\n'
    result = run(f'n_trials = 2\n{loss}[searcher]\nuse = "scripted:Scribe"\n' + LR + INLINE)
    for trial in result.trials:
        assert [steps for _, steps, _ in trial.watched.reports] == [0, 0, 0]
        reports = [row[2:] for row in told(result.path) if row[:2] == ("report", trial.number)]
        assert reports == [(epoch, value) for epoch, _, value in trial.watched.reports]
        assert [step for step, _ in reports] == [1, 2, 3]
        assert [step for step, _ in trial.as_past().reports] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("pool", [INLINE, SUBPROCESS])
def test_a_trial_that_is_given_up_stops_within_one_evaluation(run, folder, pool):
    change(folder, "n_epochs = 3", "n_epochs = 5")
    text = 'n_trials = 3\nseeds = 2\n[searcher]\nuse = "scripted:Scribe"\ngives_up = true\n'
    result = run(text + LR + pool)
    assert [trial.state for trial in result.trials] == ["pruned", "done", "pruned"]
    for trial in result.trials:
        path = result.path / "trials" / f"{trial.number:04d}"
        values = evaluations(path / "seed-1")
        assert len(values) == (1 if trial.state == "pruned" else 5)
        assert (path / "seed-2").exists() == (trial.state == "done")
        if trial.state == "pruned":
            assert trial.value == values[-1]
            assert ("finish", trial.number, "pruned", values[-1]) in told(result.path)


@pytest.mark.slow
def test_the_best_are_trained_again_on_seeds_the_search_never_saw(run):
    result = run("n_trials = 4\nseeds = 2\n" + LR + INLINE + "\n[confirm]\ntop = 2\nseeds = 2\n")
    by_value = sorted(result.trials, key=lambda trial: (-trial.value, trial.number))
    assert [trial.number for trial in result.trials if trial.confirmed is not None] == sorted(
        trial.number for trial in by_value[:2]
    )
    for trial in by_value[:2]:
        folder = result.path / "confirm" / f"{trial.number:04d}"
        assert {path.name for path in folder.iterdir()} == {"seed-3", "seed-4"}
        assert trial.confirmed == np.mean([max(evaluations(folder / f"seed-{seed}")) for seed in (3, 4)])
    assert result.best.confirmed == max(trial.confirmed for trial in by_value[:2])
    rows = table(result.path)
    assert [float(row["confirmed"]) for row in rows if row["confirmed"]] == [
        trial.confirmed for trial in result.trials if trial.confirmed is not None
    ]
    assert (result.path / "best.toml").read_text().startswith(f"# trial {result.best.number} of sweep small")


def mortal(folder, n, at):
    change(
        folder,
        'use = "maze_testing.environments:Identity"',
        f'use = "scripted:Mortal"\nfolder = "{folder}"\nat = {at}',
    )
    for index in range(n):
        (folder / f"death-{index}").touch()


@pytest.mark.slow
def test_a_run_whose_worker_is_killed_is_tried_once_more(run, folder):
    calm = run("n_trials = 2\n" + LR + SUBPROCESS, n_parallel=1)
    mortal(folder, 1, at=20)
    result = run("n_trials = 2\n" + LR + SUBPROCESS, n_parallel=1)
    assert not list(folder.glob("death-*"))
    assert [trial.state for trial in result.trials] == ["done", "done"]
    assert sorted(trial.watched.failures for trial in result.trials) == [0, 1]
    assert [trial.value for trial in result.trials] == [trial.value for trial in calm.trials]


@pytest.mark.slow
def test_a_run_that_dies_twice_fails_and_the_sweep_goes_on(run, folder):
    mortal(folder, 2, at=4)
    result = run('n_trials = 2\n[searcher]\nuse = "scripted:Scribe"\n' + LR + SUBPROCESS, n_parallel=1)
    assert [trial.state for trial in result.trials] == ["failed", "done"]
    assert "killed by SIGKILL" in result.trials[0].reason
    assert ("finish", 0, "failed", None) in told(result.path)
    assert result.best.number == 1


@pytest.mark.slow
@pytest.mark.parametrize("pool", [INLINE, SUBPROCESS])
def test_a_run_that_diverges_is_pruned(run, folder, pool):
    change(folder, 'use = "maze_testing.environments:Identity"', 'use = "scripted:Poisoned"')
    result = run('[searcher]\nuse = "grid"\n[space]\nenv.at = { values = [1, 10000] }\n' + pool)
    assert [trial.state for trial in result.trials] == ["pruned", "done"]
    assert result.trials[0].reason.startswith("diverged: ")
    assert result.trials[0].watched.failures == 1


def test_a_draw_that_does_not_fit_fails_and_the_sweep_goes_on(run):
    text = 'n_trials = 3\n[searcher]\nuse = "scripted:Wild"\n[space]\nvector.n_envs = { values = [2] }\n'
    result = run(text + INLINE)
    assert [trial.state for trial in result.trials] == ["done", "failed", "done"]
    assert result.trials[1].reason == "vector.n_envs is out of range"


def test_a_metric_that_nothing_reports_stops_the_sweep_at_the_first_evaluation(maze, folder):
    (folder / "sweep.toml").write_text(
        'experiment = "small.toml"\nn_trials = 5\nmetric = "PPOEvents/klx"\n' + LR + INLINE
    )
    done = maze("sweep", "sweep.toml", "--out", "out")
    assert done.exit_code == 2
    assert "no statistic is called 'PPOEvents/klx'" in done.output
    assert "sweep.toml:3:" in done.output
    assert REWARD in done.output
    assert "train_ActorCriticEvents/" in done.output
    assert len(list((folder / "out/trials").iterdir())) == 1
    assert len((folder / "out/trials/0000/seed-1/evaluations.jsonl").read_text().splitlines()) == 1


def test_a_metric_of_the_experiment_that_nothing_reports_stops_the_sweep_too(run, folder):
    change(folder, "n_episodes = 2", 'n_episodes = 2\nmetric = "MyEvents/sum"')
    with pytest.raises(RequestError, match="no statistic is called 'MyEvents/sum'"):
        run("n_trials = 5\n" + LR + INLINE, out="out")
    assert len(list((folder / "out/trials").iterdir())) == 1


def test_one_process_at_a_time_trains_a_sweep(run, folder):
    from maze_kernel.config import load_experiment

    result = run("n_trials = 1\n" + LR + INLINE)
    experiment = load_experiment(folder / "small.toml")
    with locked(result.path), pytest.raises(RequestError) as caught:
        sweep(resume=result.path, experiment=experiment, silent=True)
    assert caught.value.what == f"the sweep in {result.path} is being trained already"
    assert caught.value.received.startswith(f"process {os.getpid()} on ")


def test_a_folder_in_use_is_refused(run, folder):
    (folder / "out").mkdir()
    (folder / "out/notes.txt").touch()
    with pytest.raises(RequestError, match="exists and is not empty"):
        run("n_trials = 1\n" + LR, out="out")


def test_a_sweep_from_python(folder):
    from maze_kernel.config import load_experiment

    data = {
        "n_trials": 2,
        "workers": {"use": "inline"},
        "space": {
            "trainer": {"lr": {"low": 1e-3, "high": 1e-1, "log": True}},
            "vector": {"n_envs": {"values": (2, 4)}},
        },
    }
    of_file = sweep({**data, "experiment": folder / "small.toml"}, silent=True)
    data["space"] = {"trainer.lr": {"low": 1e-3, "high": 1e-1, "log": True}, "vector.n_envs": {"values": [2, 4]}}
    of_loaded = sweep(data, experiment=load_experiment(folder / "small.toml"), silent=True)
    assert [trial.value for trial in of_file.trials] == [trial.value for trial in of_loaded.trials]
    assert of_loaded.best.value == max(trial.value for trial in of_loaded.trials)
    with pytest.raises(ExperimentError, match=r"vector\.n_envs is out of range"):
        sweep({**data, "experiment": folder / "small.toml", "space": {"vector": {"n_envs": {"values": [0]}}}})


@pytest.mark.parametrize("given", [{}, {"env": lambda: Identity(n_steps=4)}])
def test_trainers_of_a_sweep_have_their_own_defaults_whatever_python_changed(folder, given):
    text = (folder / "small.toml").read_text()
    (folder / "small.toml").write_text(
        text.replace("n_rollout_steps = 8\nbatch_size = 8\nn_optimization_epochs = 1\n", "")
    )
    context = RunContext(experiment="small.toml", overrides={"trainer.gamma": 0.5}, silent=True, **given)
    base = base_of_loaded(context.loaded)
    trial = base.trial({"trainer.use": "a2c"}, None)
    assert (trial.experiment.trainer.use, trial.experiment.trainer.options.gamma) == ("a2c", 0.5)
    assert bool(base.text) is not bool(given)
    named = experiment_from_mapping(
        {"name": "named", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": "ppo"}, kernel=None
    )
    assert base_of_loaded(named).trial({"trainer.lr": 0.5}, None).experiment.trainer.options.lr == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["inline", "subprocess"])
def test_a_sweep_over_an_environment_that_lives_in_python(folder, pool):

    trainer = {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 8, "batch_size": 8}
    data = {"name": "own", "env": lambda: Identity(n_steps=4), "trainer": trainer, "vector": {"n_envs": 2}}
    loaded = experiment_from_mapping(data, kernel=None)
    space = {"trainer": {"lr": {"values": [1e-3, 1e-2]}}}
    result = sweep(
        {"searcher": {"use": "grid"}, "workers": {"use": pool}, "space": space}, experiment=loaded, silent=True
    )
    assert [trial.state for trial in result.trials] == ["done", "done"]
    with pytest.raises(RequestError, match="objects from Python"):
        sweep(resume=result.path)
    again = sweep(resume=result.path, experiment=loaded, silent=True)
    assert [trial.value for trial in again.trials] == [trial.value for trial in result.trials]


def test_the_command_prints_what_came_of_it(maze, folder):
    (folder / "sweep.toml").write_text('experiment = "small.toml"\n' + GRID + INLINE)
    done = maze("sweep", "sweep.toml", "--set", "trainer.n_epochs=1", "--trials", "3", "--out", "out")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == f"3 trials by {REWARD}: 3 done"
    assert lines[1].split()[:3] == ["trial", "state", "value"]
    assert len([line for line in lines if " done " in f"{line} "]) >= 3
    assert "compare the trials with: maze compare out/trials" in lines
    assert "open in a browser: out/report.html" in lines
    said = done.stderr.splitlines()
    assert "folder of the sweep: out" in said
    assert [line.split(":")[0] for line in said if line.startswith("[")] == [
        "[1/3] trial 0",
        "[2/3] trial 1",
        "[3/3] trial 2",
    ]
    assert json.loads(Path("out/trials/0000/seed-1/run.json").read_text())["experiment"]["trainer"]["n_epochs"] == 1
