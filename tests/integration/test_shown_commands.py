"""Commands that are printed to be typed next can be copied as they stand, whatever files and folders are called."""

import re
import shlex
import sys
from pathlib import Path

import pytest

HERE = "my experiments"
SMALL = [f"--set=trainer.{item}" for item in ("n_epochs=1", "epoch_length=1", "n_rollout_steps=8")]
SWEEP = """
experiment = "pole.toml"

[space]
trainer.lr = { values = [0.01] }

[searcher]
use = "grid"
"""
FALLING = """
import gymnasium, numpy as np

class Lift(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    n_steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.n_steps += 1
        return np.zeros(2, np.float32), 1 / (20 - self.n_steps), False, False, {}
"""


@pytest.fixture
def shown(maze):
    """Runs a command and returns those that it names, as words, each with a path of the folder that is there."""
    Path(HERE).mkdir()

    def run(*arguments, exit_code=0):
        done = maze(*arguments)
        assert done.exit_code == exit_code, (arguments, done.output)
        commands = [
            shlex.split(text)
            for text in re.findall(r"(?:with|next|too|with that seed): ((?:maze|pip) [^;&\n]*)", done.output)
        ]
        for words in commands:
            paths = [word for word in words if HERE in word]
            assert paths, commands
            assert all(Path(path).exists() or "--out" in words for path in paths), commands
        return commands

    return run


@pytest.fixture
def file(shown):
    (check, train) = shown("new", f"{HERE}/pole.toml", "--env", "CartPole-v1")
    shown(*check[1:])
    assert train == ["maze", "train", f"{HERE}/pole.toml"]
    return Path(train[2])


@pytest.mark.slow
def test_of_an_experiment_and_its_run(shown, file):
    assert f"# maze check '{file}' says what is wrong with it" in file.read_text()
    (roll_out,) = shown("train", file, *SMALL, "--out", f"{HERE}/one run")
    (view,) = shown(*roll_out[1:], "--episodes", "1", "--record-to", f"{HERE}/some episodes")
    shown(*view[1:], "--out", f"{HERE}/page.html")
    (resume,) = shown("train", file, "--out", f"{HERE}/one run", exit_code=2)
    assert resume == ["maze", "train", "--resume", f"{HERE}/one run"]
    assert shown(*resume[1:]) == [roll_out]
    assert shown("train", f"{HERE}/one run", exit_code=2) == [resume]


def test_of_an_environment_that_raises(shown, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path(HERE, "falling_lift.py").write_text(FALLING)
    Path(HERE, "lift.toml").write_text('name = "lift"\n[env]\nuse = "falling_lift:Lift"\n[trainer]\nuse = "ppo"\n')
    file = f"{HERE}/lift.toml"
    for command in (["train", "--out", f"{HERE}/one run", *SMALL], ["rollout", "--episodes", "1"]):
        (alone,) = shown(command[0], file, *command[1:], exit_code=1)
        assert alone[:4] == ["maze", "check", file, "--steps"]
        shown(*alone[1:], exit_code=1)


def test_of_a_folder_in_which_nothing_was_begun(shown):
    Path(f"{HERE}/empty one").mkdir()
    (begin,) = shown("show", f"{HERE}/empty one", exit_code=2)
    assert begin == ["maze", "train", "FILE", "--out", f"{HERE}/empty one"]


def test_of_a_series(shown, file):
    (compare,) = shown("train", file, *SMALL, "--seeds", "0", "--out", f"{HERE}/some runs")
    shown(*compare[1:])
    (resume,) = shown("train", file, "--seeds", "0", "--out", f"{HERE}/some runs", exit_code=2)
    assert shown(*resume[1:]) == [compare]


@pytest.mark.slow
def test_of_a_sweep(shown, file):
    file.with_name("sweep.toml").write_text(SWEEP)
    train, compare = shown("sweep", file.with_name("sweep.toml"), *SMALL, "--out", f"{HERE}/a sweep")
    shown(*train[1:], "--out", f"{HERE}/the best")
    shown(*compare[1:])
    (resume,) = shown("sweep", file.with_name("sweep.toml"), "--out", f"{HERE}/a sweep", exit_code=2)
    assert resume == ["maze", "sweep", "--resume", f"{HERE}/a sweep"]
    shown(*resume[1:])


def test_of_a_new_plugin(shown):
    (install,) = shown("new-plugin", "maze-robots-of-mine", "--out", HERE)
    assert install == ["pip", "install", "-e", f"{HERE}/maze_robots_of_mine"]
