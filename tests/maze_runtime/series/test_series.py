"""One experiment with several seeds: the same runs as one by one, whatever happens to some of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from maze_kernel.config import load_experiment
from maze_kernel.errors import RequestError, WorkerError
from maze_runtime.series.run_actor import RunActor, RunTask
from maze_runtime.series.series import SeriesOptions, resume_series, train_series, with_seed
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.train import train

EXPERIMENT = """
name = "small"
seed = 5
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 2
[trainer]
use = "ppo"
n_epochs = 4
epoch_length = 1
n_rollout_steps = 16
batch_size = 16
[evaluation]
n_episodes = 2
every_epochs = 2
[checkpoint]
every_epochs = 1
[[loggers]]
use = "csv"
"""
SECONDS_ALLOWED = 120
LOSS = "train_ValidationEvents/policy_loss"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture
def one_thread():
    """As many threads as workers have, so that sums are added up in the same order."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def weights(run_dir, epoch=4):
    return (run_dir / "checkpoints" / f"epoch-{epoch:06d}" / "model.safetensors").read_bytes()


def rows(run_dir, name="train"):
    """The statistics without those that are times."""
    lines = (run_dir / "statistics" / f"{name}.csv").read_text().splitlines()[1:]
    columns = [line.split(",") for line in lines]
    return [(epoch, steps, tag, value) for epoch, steps, _, tag, value in columns if "Timing/" not in tag]


@pytest.mark.slow
@pytest.mark.parametrize("n_parallel", [1, 2])
def test_the_runs_are_those_of_single_trainings(file, tmp_path, one_thread, n_parallel):
    loaded = load_experiment(file)
    result = train_series(loaded, [1, 2, 3], path=tmp_path / "series", options=SeriesOptions(n_parallel=n_parallel))
    assert result.is_complete
    assert [seed.seed for seed in result.seeds] == [1, 2, 3]
    for seed in result.seeds:
        alone = train(
            with_seed(loaded, seed.seed), loaded.kernel, run_dir=tmp_path / f"alone-{seed.seed}", verbosity=-1
        )
        assert weights(seed.run_dir) == weights(alone.run_dir)
        assert rows(seed.run_dir) == rows(alone.run_dir)
        assert rows(seed.run_dir, "eval") == rows(alone.run_dir, "eval")
        assert seed.best_metric == alone.best_metric
        assert seed.report.env_steps == alone.env_steps
        assert json.loads((seed.run_dir / "run.json").read_text())["experiment"]["seed"] == seed.seed
    assert np.array_equal(result.scores, [seed.best_metric for seed in result.seeds])
    assert result.interval is None  # of three seeds


def test_the_interval_of_five_seeds_holds_their_mean(file, tmp_path):
    loaded = load_experiment(file, overrides=["trainer.n_epochs=1"])
    result = train_series(loaded, range(5), path=tmp_path / "series", options=SeriesOptions(n_parallel=1))
    assert result.interval.low <= result.scores.mean() <= result.interval.high
    assert result.interval.is_narrow


def test_an_actor_stops_at_every_evaluation(file, tmp_path):
    loaded = load_experiment(file)
    actor = RunActor(None)
    task = RunTask(loaded=loaded, run_dir=tmp_path / "run")
    begun = actor.begin(task)
    assert (begun.epoch, begun.outcome, begun.evaluation) == (0, None, {})
    report = actor.advance()
    assert report.epoch == 2
    assert 60 < report.env_steps <= 64  # resets are no steps
    assert set(report.evaluation) >= {"BaseEnvEvents/reward/mean", "BaseEnvEvents/episode_count"}
    stopped = actor.stop("stopped early", "it was told to")
    assert stopped.outcome.status == "stopped early"
    assert CheckpointStore(task.run_dir).epochs()[-1] == 2
    with pytest.raises(WorkerError, match="no run to advance"):
        actor.advance()
    assert actor.begin(task).epoch == 2
    last = actor.advance()
    assert (last.epoch, last.outcome.status) == (4, "done")
    assert actor.begin(task).outcome.status == "done"


def test_a_run_that_another_one_replaces_is_saved(file, tmp_path):
    loaded = load_experiment(file, overrides=["checkpoint.every_epochs=100"])
    actor = RunActor(None)
    actor.begin(RunTask(loaded=loaded, run_dir=tmp_path / "first"))
    actor.advance()
    actor.begin(RunTask(loaded=loaded, run_dir=tmp_path / "second"))
    assert CheckpointStore(tmp_path / "first").epochs() == [2]
    actor.advance()
    actor.close()
    assert CheckpointStore(tmp_path / "second").epochs() == [2]


DYING = """
import os
from pathlib import Path
import gymnasium

def make():
    return Dying(gymnasium.make("CartPole-v1"))

class Dying(gymnasium.Wrapper):
    def step(self, action):
        try:
            Path({flag!r}).unlink()
        except FileNotFoundError:
            return self.env.step(action)
        os._exit(3)
"""


@pytest.mark.slow
def test_one_seed_dies_and_goes_on_later(file, tmp_path, monkeypatch, one_thread):
    flag = tmp_path / "die"
    (tmp_path / "dying_simulation.py").write_text(DYING.format(flag=str(flag)))
    monkeypatch.syspath_prepend(tmp_path)
    file.write_text(EXPERIMENT.replace('use = "gym"\nid = "CartPole-v1"', 'use = "dying_simulation:make"'))
    loaded = load_experiment(file)
    whole = train_series(loaded, [0, 1], path=tmp_path / "whole", options=SeriesOptions(n_parallel=2))
    assert whole.is_complete
    flag.touch()
    options = SeriesOptions(n_parallel=2)
    broken = train_series(loaded, [0, 1], path=tmp_path / "broken", options=options)
    states = sorted(seed.status for seed in broken.seeds)
    assert states == ["done", "failed"]
    failed = next(seed for seed in broken.seeds if seed.status == "failed")
    assert isinstance(failed.error, WorkerError)
    assert not broken.is_complete
    with pytest.raises(RequestError, match="not empty") as refused:
        train_series(loaded, [0, 1], path=tmp_path / "broken", options=options)
    assert f"maze train --resume {tmp_path / 'broken'}" in refused.value.help
    mended = resume_series(tmp_path / "broken", loaded, options=options)
    assert mended.is_complete
    for seed, other in zip(mended.seeds, whole.seeds, strict=True):
        assert weights(seed.run_dir) == weights(other.run_dir)


def test_a_pool_without_the_callers_files_is_refused(file, tmp_path):
    loaded = load_experiment(file, overrides=['workers.use="maze_testing.by_value_pool:ByValuePool"'])
    with pytest.raises(RequestError, match="do not share files"):
        train_series(loaded, [0, 1], path=tmp_path / "series", options=SeriesOptions(n_parallel=2))


def test_the_command(maze, file):
    done = maze("train", file, "--seeds", "0-2", "--parallel", 2, "--out", "series", "--set", "trainer.n_epochs=1")
    assert done.exit_code == 0, done.output
    assert "folder of the runs: series" in done.stderr
    assert "seed 1: done after epoch 1, best BaseEnvEvents/reward/mean" in done.stderr
    assert "best BaseEnvEvents/reward/mean: mean " in done.stdout
    assert "of 3 seeds" in done.stdout
    assert "compare them with: maze compare series" in done.stdout
    assert sorted(path.name for path in Path("series").iterdir()) == ["seed-0", "seed-1", "seed-2", "series.json"]
    again = maze("train", "--resume", "series")
    assert again.exit_code == 0, again.output
    assert again.stdout == done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [1, 2])
def test_the_trainer_may_say_what_selects_the_best_models(maze, file, tmp_path, parallel):
    maze("rollout", file, "--policy", "random", "--episodes", "4", "--record-to", tmp_path / "played")
    cloning = f'trainer={{use="bc", demonstrations={{path="{tmp_path / "played"}"}}, n_epochs=2}}'
    done = maze("train", file, "--seeds", "0-1", "--parallel", parallel, "--out", "series", "--set", cloning)
    assert done.exit_code == 0, done.output
    losses = {
        seed: min(float(row[-1]) for row in rows(Path(f"series/seed-{seed}")) if row[-2] == LOSS.removeprefix("train_"))
        for seed in (0, 1)
    }
    for seed, loss in losses.items():
        assert f"seed {seed}: done after epoch 2, best {LOSS} {loss:.6g}" in done.stderr
    mean = sum(losses.values()) / 2
    assert f"best {LOSS}, less is better: mean {mean:.6g} of 2 seeds" in done.stdout
    again = maze("train", "--resume", "series", "--parallel", parallel)
    assert again.stdout == done.stdout


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--seeds", "x"], "'x' is no seed"),
        (["--seeds", "0-1", "--overwrite", "--out", "series"], "a series overwrites nothing"),
        (["--seeds", "0-1", "--resume", "series"], "a series keeps its seeds"),
        (["--parallel", "2"], "--parallel is for several runs"),
        (["--seeds", "0-1", "--set", "trainer.lr=-1"], "trainer.lr"),
    ],
)
def test_what_the_command_refuses(maze, file, arguments, what):
    done = maze("train", file, *arguments)
    assert done.exit_code == 2, done.output
    assert what in done.stderr
    assert not Path("series").exists()
    assert not Path("runs").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes")
def test_an_interrupt_saves_every_run_and_says_how_to_go_on(file, tmp_path):
    code = "import sys; from maze_kernel.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "train", str(file), "--seeds", "0-3", "--parallel", "2", "--out", "series"]
    process = subprocess.Popen(
        [*command, "--set", "trainer.n_epochs=100000"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + SECONDS_ALLOWED
    runs = [tmp_path / "series" / f"seed-{seed}" for seed in range(4)]
    while time.monotonic() < deadline and not all((run / "statistics" / "eval.csv").exists() for run in runs[:2]):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=SECONDS_ALLOWED)
    assert process.returncode == 130, errors
    assert "interrupted; go on with: maze train --resume series" in out
    assert "press Ctrl-C again" in errors
    states = [line.split()[1] for line in out.splitlines()[1:5]]
    assert states == ["interrupted", "interrupted", "waiting", "waiting"]
    for run in runs[:2]:
        epoch = CheckpointStore(run).epochs()[-1]
        assert rows(run)[-1][0] == str(epoch)
    assert not runs[2].exists()
