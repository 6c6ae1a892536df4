"""Runs to read: real ones, trained once, and ones whose statistics a test chooses."""

import csv
import json
import os

import pytest

MEAN_REWARD = "BaseEnvEvents/reward/mean"
COLUMNS = ("epoch", "env_steps", "wall_seconds", "tag", "value")
POLE = """
name = "pole"

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

[evaluation]
n_episodes = 2

[[loggers]]
use = "csv"

[[loggers]]
use = "drawing"
"""
CLONING = """
[trainer]
use = "bc"
demonstrations = {{ path = "{folder}/played" }}
n_epochs = 2

[evaluation]
n_episodes = 2

[[loggers]]
use = "csv"
"""
FAILING = '''
import gymnasium


class Failing(gymnasium.Wrapper):
    """Works for so many steps of the whole run, then no more."""

    n_left = 60

    def step(self, action):
        Failing.n_left -= 1
        if Failing.n_left < 0:
            raise RuntimeError("the pole broke")
        return self.env.step(action)


def make():
    return Failing(gymnasium.make("CartPole-v1"))
'''


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with real runs: `ppo-1`, `ppo-2`, `a2c-1`, and `failed`, which got through two epochs and no further."""
    from typer.testing import CliRunner

    from maze_kernel.cli.app import make_app

    folder = tmp_path_factory.mktemp("trained")
    (folder / "pole.toml").write_text(POLE)
    (folder / "broken_pole_of_reports.py").write_text(FAILING)

    def train(out, *settings):
        arguments = ["train", "pole.toml", "--out", out]
        arguments += [text for setting in settings for text in ("--set", setting)]
        return CliRunner().invoke(make_app(), arguments)

    before = os.getcwd()
    os.chdir(folder)
    try:
        for seed in (1, 2):
            assert train(f"ppo-{seed}", f"seed={seed}").exit_code == 0
        a2c = ("seed=1", 'trainer={use="a2c", n_epochs=3, epoch_length=1, n_rollout_steps=16}')
        assert train("a2c-1", *a2c).exit_code == 0
        broken = ("seed=3", 'env={use="broken_pole_of_reports:make"}', "evaluation.n_episodes=0")
        assert train("failed", *broken).exit_code == 1
        assert CliRunner().invoke(make_app(), ["rollout", "ppo-1", "--episodes", "2", "--record"]).exit_code == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(scope="session")
def cloned(trained):
    """A folder with two real runs of behavioural cloning, `seed-1` and `seed-2`, which steps no environment."""
    from typer.testing import CliRunner

    from maze_kernel.cli.app import make_app

    folder = trained.parent / f"{trained.name}-cloned"
    folder.mkdir()
    (folder / "bc.toml").write_text(POLE.partition("[vector]")[0] + CLONING.format(folder=folder))
    played = ("rollout", str(trained / "ppo-1"), "--episodes", "4", "--record-to", str(folder / "played"))
    assert CliRunner().invoke(make_app(), played).exit_code == 0
    for seed in ("1", "2"):
        out = str(folder / "runs" / f"seed-{seed}")
        done = CliRunner().invoke(make_app(), ["train", str(folder / "bc.toml"), "--out", out, "--set", f"seed={seed}"])
        assert done.exit_code == 0, done.output
    return folder / "runs"


@pytest.fixture
def make_run(tmp_path):
    """`make_run("a", {1000: 5.0, 2000: 7.0}, seed=1, ...)` -> a run directory with these evaluations, by steps."""

    def make(path, values, *, name="made", seed=0, env="CartPole-v1", end="done: all epochs done", train=(), **tables):
        folder = tmp_path / path
        (folder / "statistics").mkdir(parents=True)
        experiment = {
            "name": name,
            "seed": seed,
            "env": {"use": "gym", "id": env},
            "trainer": {"use": "ppo", "lr": 1e-3},
        }
        experiment |= {"evaluation": {"n_episodes": 4}, **tables}
        record = {
            "format": 1,
            "name": name,
            "created": "2026-01-02T03:04:05Z",
            "overrides": [],
            "experiment": experiment,
        }
        (folder / "run.json").write_text(json.dumps(record))
        (folder / "log.txt").write_text(f"2026-01-02T03:05:05Z {end}\n")
        rows = [
            (epoch, steps, 2.0 * epoch, MEAN_REWARD, value) for epoch, (steps, value) in enumerate(values.items(), 1)
        ]
        for split, own in (("eval", rows), ("train", train)):
            if own:
                with open(folder / "statistics" / f"{split}.csv", "w", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows([COLUMNS, *own])
        return folder

    return make
