"""`maze train --seeds`, and what a run tells whoever asks for its epochs."""

import json
from pathlib import Path

import pytest

EXPERIMENT = """
name = "small"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
[trainer]
use = "ppo"
n_epochs = 3
epoch_length = 1
n_rollout_steps = 16
batch_size = 16
n_optimization_epochs = 1
[checkpoint]
every_epochs = 2
[evaluation]
n_episodes = 1
"""


@pytest.fixture
def experiment(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    return file


def test_seeds_are_trained_in_one_folder_and_shown_as_a_table(maze, experiment):
    done = maze("train", experiment, "--seeds", "3,5", "--parallel", "1", "--out", "both")
    assert done.exit_code == 0, done.output
    assert {path.name for path in Path("both").iterdir() if path.is_dir()} == {"seed-3", "seed-5"}
    assert json.loads(Path("both/series.json").read_text())["seeds"] == [3, 5]
    assert [line.split()[:3] for line in done.stdout.splitlines()[:3]] == [
        ["seed", "state", "epoch"],
        ["3", "done", "3"],
        ["5", "done", "3"],
    ]


def test_ctrl_c_before_the_first_run_says_how_to_go_on(maze, experiment, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("maze_runtime.training.interruption.ignore_ctrl_c", lambda: None)
    monkeypatch.setattr("maze_runtime.series.series.make_pool", interrupt)
    for command in (["small.toml", "--seeds", "3,5", "--out", "both here"], ["--resume", "both here"]):
        done = maze("train", *command)
        assert done.exit_code == 130, done.output
        assert done.stderr.splitlines()[-1] == "interrupted; go on with: maze train --resume 'both here'"
    monkeypatch.setattr("maze_runtime.commands.series.experiment_of", interrupt)
    done = maze("train", "small.toml", "--seeds", "3,5", "--out", "neither")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


@pytest.fixture
def task(experiment, tmp_path):
    from maze_kernel.config import load_experiment
    from maze_runtime.series.run_actor import RunTask

    def make(name="run", **changes):
        items = [f"trainer.{key}={value}" for key, value in changes.items() if key != "n_episodes"]
        items += [f"evaluation.n_episodes={changes['n_episodes']}"] if "n_episodes" in changes else []
        return RunTask(loaded=load_experiment(experiment, overrides=items), run_dir=tmp_path / name)

    return make


def advance_all(actor, report):
    reports = [report]
    while reports[-1].outcome is None:
        reports.append(actor.advance())
    return reports


def kill(actor):
    """What its process held is given back, and nothing is saved."""
    actor._run._stack.close()


def test_a_run_that_goes_on_says_what_it_has_measured(task):
    from maze_runtime.series.run_actor import RunActor

    whole = advance_all(actor := RunActor(None), actor.begin(task("whole")))
    assert [report.epoch for report in whole] == [0, 1, 2, 3]

    killed = RunActor(None)
    killed.begin(task())
    for _ in range(2):
        killed.advance()
    kill(killed)
    again = advance_all(actor := RunActor(None), actor.begin(task()))
    assert [report.epoch for report in again] == [2, 3]
    assert [report.epoch for report in again[0].earlier] == [1, 2]
    seen = [*again[0].earlier, again[1]]
    assert [report.evaluation for report in seen] == [report.evaluation for report in whole[1:]]

    over = RunActor(None).begin(task())
    assert over.outcome.status == "done"
    assert [report.evaluation for report in over.earlier] == [report.evaluation for report in whole[1:]]


def test_epochs_after_the_checkpoint_are_measured_again(task):
    from maze_runtime.series.run_actor import RunActor

    killed = RunActor(None)
    killed.begin(task())
    killed.advance()  # nothing is saved before the second epoch
    kill(killed)
    with task().run_dir.joinpath("evaluations.jsonl").open("a") as file:
        file.write('{"epoch": 2, "env_st')
    again = advance_all(actor := RunActor(None), actor.begin(task()))
    assert again[0].earlier == ()
    assert [report.epoch for report in again] == [0, 1, 2, 3]
    lines = task().run_dir.joinpath("evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]


def test_without_evaluations_every_epoch_is_reported(task):
    from maze_runtime.series.run_actor import RunActor

    reports = advance_all(actor := RunActor(None), actor.begin(task(n_episodes=0)))
    assert [report.epoch for report in reports] == [0, 1, 2, 3]
    assert all(report.train for report in reports[1:])


def test_a_run_that_lost_its_patience_unheard_trains_no_further(task):
    from maze_runtime.series.run_actor import RunActor

    patient = {"patience": 1, "n_epochs": 50, "lr": 1e-12}
    ended = advance_all(actor := RunActor(None), actor.begin(task(**patient)))
    assert ended[-1].outcome.status == "stopped early"
    again = RunActor(None).begin(task(**patient))
    assert (again.epoch, again.outcome.status) == (ended[-1].epoch, "stopped early")
