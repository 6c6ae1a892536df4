"""`maze list-runs`: what runs there are, and how they stand."""

import csv
import json
import os
import shutil
from pathlib import Path

import pytest

from maze_kernel.errors import MazeWarning
from maze_reports.comparison import compare_runs
from maze_reports.finding import find_runs
from maze_reports.listing import list_runs
from maze_reports.run_state import run_state
from maze_reports.runs import open_runs

STAMP = "2026-01-02T03:05:06Z"


def test_real_runs_are_listed_with_state_and_values(maze, trained):
    done = maze("list-runs", trained, "--json")
    assert done.exit_code == 0
    rows = {row["run"].rpartition("/")[2]: row for row in json.loads(done.stdout)}
    assert set(rows) == {"ppo-1", "ppo-2", "a2c-1", "failed"}
    assert {name: rows[name]["state"] for name in rows} == {**dict.fromkeys(rows, "done"), "failed": "failed"}
    assert (rows["a2c-1"]["trainer"], rows["a2c-1"]["environment"]) == ("a2c", "CartPole-v1")
    assert [rows[name]["seed"] for name in ("ppo-1", "ppo-2")] == [1, 2]
    assert rows["ppo-1"]["epochs"] == 3
    with open(trained / "ppo-1" / "statistics" / "train.csv", newline="") as file:
        assert rows["ppo-1"]["env_steps"] == int(list(csv.DictReader(file))[-1]["env_steps"]) > 0
    assert rows["ppo-1"]["best"] >= rows["ppo-1"]["last"] > 0
    assert "the pole broke" in rows["failed"]["reason"]
    assert rows["failed"]["metric"] == "train_BaseEnvEvents/reward/mean"


def test_the_table_names_failures_below(maze, trained):
    done = maze("list-runs", trained)
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "run",
        "experiment",
        "trainer",
        "environment",
        "seed",
        "epochs",
        "last",
        "best",
        "state",
        "when",
    ]
    assert len(lines) == 5
    assert "failed: its step raised RuntimeError: the pole broke" in done.stderr


def test_runs_are_read_without_torch(trained):
    import subprocess
    import sys

    code = (
        "import sys; from maze_reports.listing import list_runs; from maze_reports.report import comparison_page\n"
        "from maze_reports.comparison import compare_runs; from maze_reports.runs import open_runs\n"
        f"list_runs([{str(trained)!r}]); comparison_page(compare_runs(open_runs([{str(trained)!r}])[0]))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_linked_runs_and_folders_are_found_once(make_run, tmp_path):
    elsewhere, named = tmp_path / "elsewhere", tmp_path / "named"
    named.mkdir()
    elsewhere.mkdir()
    for seed, name in enumerate(("moved", "other")):
        shutil.move(make_run(name, {10: 4.0}, seed=seed), elsewhere / name)
    (named / "base").symlink_to(elsewhere / "moved")
    assert [Path(row.run).name for row in list_runs([named])] == ["base"]
    (named / "all").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(named)
    found = find_runs([named])
    assert sorted(run.resolve().name for run in found) == ["moved", "other"]
    assert all(run.is_relative_to(named) for run in found)


def test_folders_that_cannot_be_read_are_named(make_run, tmp_path, monkeypatch):
    make_run("mine", {10: 4.0})
    locked, scandir = tmp_path / "locked", os.scandir
    locked.mkdir()

    def guarded(path):
        if str(path) == str(locked):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.warns(MazeWarning, match="locked"):
        assert [run.name for run in find_runs([tmp_path])] == ["mine"]


def test_values_follow_the_direction_of_the_metric(make_run):
    evaluation = {"n_episodes": 2, "metric": "-BaseEnvEvents/reward/mean"}
    (row,) = list_runs([make_run("a", {10: 4.0, 20: 1.0, 30: 2.0}, evaluation=evaluation)])
    assert (row.last, row.best) == (2.0, 1.0)


def test_without_evaluation_rewards_are_what_the_environments_paid(make_run):
    learnt_from = [(1, 10, 2.0, "BaseEnvEvents/reward/mean", 0.5), (2, 20, 4.0, "BaseEnvEvents/reward/mean", 0.2)]
    paid = [(1, 10, 2.0, "BaseEnvEvents/raw_reward/mean", 30.0), (2, 20, 4.0, "BaseEnvEvents/raw_reward/mean", 50.0)]
    without = {"evaluation": {"n_episodes": 0}}
    shaped = make_run("shaped", {}, train=[*learnt_from, *paid], **without)
    plain = make_run("plain", {}, seed=1, train=learnt_from, **without)
    (row,) = list_runs([shaped])
    assert (row.last, row.best) == (50.0, 50.0)
    (row,) = list_runs([plain])
    assert (row.last, row.best) == (0.2, 0.5)
    (group,) = compare_runs(open_runs([shaped, plain])[0]).groups
    assert set(group.scores) == {50.0, 0.2}


def test_the_trainer_may_have_said_what_selects_the_best_model(maze, cloned):
    rows = json.loads(maze("list-runs", cloned, "--json").stdout)
    for row in rows:
        with open(f"{row['run']}/statistics/train.csv", newline="") as file:
            lines = [line for line in csv.DictReader(file) if line["tag"] == "ValidationEvents/policy_loss"]
        assert row["metric"] == "train_ValidationEvents/policy_loss"
        assert row["best"] == min(float(line["value"]) for line in lines)
        assert row["last"] == float(lines[-1]["value"])
    done = maze("compare", cloned, "--x", "epoch")
    assert "2 runs by ValidationEvents/policy_loss of training, less is better: last value" in done.stdout


@pytest.mark.parametrize(
    ("stored", "n_episodes", "shown"),
    [
        ("-train_ImitationEvents/policy_loss", 0, ("train_ImitationEvents/policy_loss", True, False)),
        ("-BaseEnvEvents/reward/mean", 4, ("BaseEnvEvents/reward/mean", True, False)),
        ("BaseEnvEvents/reward/mean", 0, ("train_BaseEnvEvents/reward/mean", False, True)),
        ("", 0, ("train_BaseEnvEvents/reward/mean", False, True)),
        (None, 4, ("BaseEnvEvents/reward/mean", False, False)),
    ],
)
def test_what_selects_is_read_from_the_run_which_an_older_one_has_not_stored(make_run, stored, n_episodes, shown):
    run = make_run("a", {10: 4.0}, evaluation={"n_episodes": n_episodes})
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record if stored is None else {**record, "metric": stored}))
    metric = open_runs([run])[0][0].metric
    assert (str(metric), metric.minimize, metric.as_paid) == shown


@pytest.mark.parametrize(
    ("text", "evaluation", "split"),
    [
        ("BaseEnvEvents/kpi/mean/rides", {"n_episodes": 0}, "train"),
        ("eval_BaseEnvEvents/kpi/mean/rides", {"n_episodes": 0}, "eval"),
        ("hard/BaseEnvEvents/reward/mean", {"n_episodes": 0, "evaluators": {"hard": {"n_episodes": 2}}}, "eval"),
        ("hard/BaseEnvEvents/reward/mean", {"n_episodes": 2, "evaluators": {"hard": {"n_episodes": 0}}}, "train"),
    ],
)
def test_training_stands_in_for_who_does_not_evaluate(make_run, text, evaluation, split):
    run = make_run("a", {10: 4.0}, evaluation={**evaluation, "metric": text})
    assert open_runs([run])[0][0].metric.split == split


@pytest.mark.parametrize(
    ("log", "state", "reason"),
    [
        ("done: all 6 epochs done", "done", "all 6 epochs done"),
        ("stopped early: no better evaluation in 15", "stopped early", "no better evaluation in 15"),
        ("interrupted: by SIGINT", "interrupted", "by SIGINT"),
        (f"done: all\n{STAMP} logger failures: CsvLogger 1", "done", "all"),
        (f"interrupted: by SIGINT\n{STAMP} resumed from epoch 3", "running", ""),
        (
            "failed: it raised RuntimeError: crashed\ndone: flushed",
            "failed",
            "it raised RuntimeError: crashed\ndone: flushed",
        ),
        (
            f"what failed:\nTraceback:\n  done: 1\n{STAMP} failed: it broke\n\nfor good",
            "failed",
            "it broke\n\nfor good",
        ),
        ("what failed:\nTraceback:\n  done: 1", "running", ""),
        ("", "running", ""),
    ],
)
def test_the_log_says_how_a_run_ended(make_run, log, state, reason):
    run = make_run("a", {10: 1.0}, end=log)
    found = run_state(run)
    assert (found.name, found.reason) == (state, reason)


def test_a_run_that_fell_silent_no_longer_runs(make_run):
    run = make_run("a", {10: 1.0}, end="")
    for file in [*run.glob("*"), *run.glob("*/*")]:
        os.utime(file, (0, 0))
    found = run_state(run)
    assert found.name == "interrupted"
    assert "without a word" in found.reason
    assert run_state(run, seconds_an_epoch=1e12).name == "running", "an epoch may take that long"


def test_damaged_runs_are_listed_as_such(maze, make_run, tmp_path):
    make_run("runs/good", {10: 1.0})
    (make_run("runs/bad", {10: 1.0}) / "run.json").write_text("{")
    (make_run("runs/later", {10: 1.0}) / "run.json").write_text('{"format": 99}')
    (make_run("runs/nested", {10: 1.0}) / "run.json").write_text("[" * 100_000)
    done = maze("list-runs")
    assert done.exit_code == 0
    states = {line.split()[0]: "damaged" in line for line in done.stdout.splitlines()[1:]}
    assert states == {"runs/bad": True, "runs/good": False, "runs/later": True, "runs/nested": True}
    assert "format 99" in done.stderr


def test_what_lies_inside_of_a_run_is_no_run_of_its_own(make_run):
    run = make_run("a", {10: 1.0})
    shutil.copytree(make_run("b", {10: 1.0}), run / "trajectories" / "copy")
    assert [row.run for row in list_runs([run])] == [str(run)]


def test_a_folder_without_runs_says_how_to_get_one(maze, tmp_path):
    done = maze("list-runs")
    assert done.exit_code == 2
    assert "there is no folder runs" in done.stderr
    assert "help: maze train FILE" in done.stderr
    (tmp_path / "runs").mkdir()
    assert "there are no runs in runs" in maze("list-runs").stderr
    done = maze("list-runs", "rums")
    assert "did you mean: runs" in done.stderr


def test_a_run_without_statistics_is_as_far_as_its_checkpoint(trained, tmp_path):
    run = tmp_path / "ppo-1"
    shutil.copytree(trained / "ppo-1", run, symlinks=True)
    (with_statistics,) = list_runs([run])
    shutil.rmtree(run / "statistics")
    (row,) = list_runs([run])
    assert (row.epochs, row.env_steps) == (with_statistics.epochs, with_statistics.env_steps)
    assert row.best == pytest.approx(with_statistics.best)
    newest = sorted((run / "checkpoints").glob("epoch-*"))[-1]
    (newest / "state.json").write_text("damaged")
    assert list_runs([run])[0].epochs < row.epochs


def test_a_checkpoint_that_goes_while_it_is_looked_at_is_passed_over(make_run, monkeypatch):
    run = make_run("a", {10: 1.0}, end="")
    checkpoint = run / "checkpoints/epoch-000001"
    checkpoint.mkdir(parents=True)
    stat = Path.stat

    def pruned(path, **options):
        found = stat(path, **options)
        if path == checkpoint:
            path.rmdir()
        return found

    monkeypatch.setattr(Path, "exists", lambda path: bool(pruned(path)))
    monkeypatch.setattr(Path, "stat", pruned)
    assert run_state(run).name == "running"
    assert not os.path.lexists(checkpoint)


def test_pipes_in_place_of_files_are_not_waited_for(maze, make_run):
    run = make_run("a", {10: 1.0})
    (run / "checkpoints/epoch-000001").mkdir(parents=True)
    (run / "figures").mkdir()
    for name in ("statistics/train.csv", "log.txt", "experiment.toml", "checkpoints/epoch-000001/state.json"):
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
    os.mkfifo(run / "figures/policy.svg")
    for command in ("list-runs", "report"):
        with pytest.warns(MazeWarning, match=r"train\.csv is no regular file"):
            assert maze(command, run).exit_code == 0
