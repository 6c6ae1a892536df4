"""An environment that raises: its author's own traceback, once, in every mode, and the command that plays it alone."""

import json
import re
import shlex
import sys

import pytest

from maze_runtime.env.tracebacks import user_traceback

SOURCE = """
import gymnasium, numpy as np
from gymnasium import spaces

def share(people, floors):
    return people / floors

class Lift(gymnasium.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, *, fail_at: int = 13, kind: str = "box", closes: bool = True):
        self.closes = closes
        if fail_at == 0:
            share(1, 0)
        self.fail_at = fail_at
        self.observation_space = {
            "box": spaces.Box(-1, 1, (2,), np.float32), "floor": spaces.Discrete(4),
            "masked": spaces.Dict(x=spaces.Box(-1, 1, (2,), np.float32), action_mask=spaces.MultiBinary(2)),
        }[kind]
        self.kind = kind

    def close(self):
        share(1, 0 if not self.closes else 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        if self.kind == "box":
            share(1, 0 if self.t == self.fail_at else 1)
        return self.observe(), 1.0, False, self.t == 30, {}

    def observe(self):
        if self.kind == "floor":
            return 3 + (self.t >= self.fail_at)
        x = np.zeros(2, np.float32)
        return x if self.kind == "box" else {"x": x, "action_mask": np.full(2, self.t < self.fail_at, np.int8)}
"""
EXPERIMENT = """
name = "lift"
[env]
use = "lift_that_falls:Lift"
[trainer]
use = "ppo"
n_epochs = 1
epoch_length = 1
n_rollout_steps = 32
[vector]
n_envs = 2
"""


@pytest.fixture
def lift(maze, tmp_path, monkeypatch):
    """Runs a command on the experiment, in its folder; worker processes find the module by PYTHONPATH."""
    (tmp_path / "lift_that_falls.py").write_text(SOURCE)
    (tmp_path / "lift.toml").write_text(EXPERIMENT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "lift_that_falls", raising=False)
    return maze


def assert_shown(text, folder, phase="step"):
    """The two frames of the module, and no other, once."""
    assert text.count("\nZeroDivisionError: division by zero\n") == 1, text
    files = re.findall(r'File "(.*?)", line (\d+), in (\w+)', text)
    assert [(file, name) for file, _, name in files] == [
        (str(folder / "lift_that_falls.py"), phase),
        (str(folder / "lift_that_falls.py"), "share"),
    ]
    lines = SOURCE.splitlines()
    assert "share(1, 0" in lines[int(files[0][1]) - 1]
    assert "return people / floors" in lines[int(files[1][1]) - 1]


POOL = ["--set", 'workers={use="subprocess",count=2}']
MODES = {
    "sequential": [],
    "subprocess": ["--set", 'vector.mode="subprocess"', "--set", "vector.n_processes=2"],
    "actors": ["--set", 'trainer={use="impala",n_epochs=1}', *POOL],
    "members": ["--set", 'trainer={use="es",n_epochs=1}', *POOL],
}


@pytest.mark.parametrize(
    "mode",
    ["sequential", "subprocess", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("actors", "members"))],
)
def test_the_traceback_is_that_of_the_authors_code_in_every_mode(lift, tmp_path, mode):
    done = lift("train", "lift.toml", "--out", "run", *MODES[mode])
    assert done.exit_code == 1
    assert_shown(done.stderr, tmp_path)
    log = (tmp_path / "run/log.txt").read_text()
    assert_shown(log, tmp_path)
    assert log.splitlines()[-1].endswith("failed: its step raised ZeroDivisionError: division by zero")

    (command,) = re.findall(
        r"see the environment alone with that seed: (maze check lift.toml .*--seed \d+)", done.stderr
    )
    alone = lift(*shlex.split(command)[1:])
    assert alone.exit_code == 1
    assert_shown(alone.stderr, tmp_path)
    assert f"seed {command.rpartition(' ')[2]}" in alone.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_failed_episodes_of_rollouts_show_it_too(lift, tmp_path, workers):
    done = lift("rollout", "lift.toml", "--episodes", "3", "--json", *workers)
    assert done.exit_code == 1
    assert_shown(done.stderr, tmp_path)
    seeds = [episode["seed"] for episode in json.loads(done.stdout)["episodes"]]
    assert f"maze check lift.toml --steps 1000 --seed {seeds[0]}" in done.stderr
    assert done.stderr.count("failed: episode with seed") == 3


def test_a_constructor_that_raises_is_shown_in_the_same_way(lift, tmp_path):
    done = lift("train", "lift.toml", "--set", "env.fail_at=0")
    assert done.exit_code == 1
    assert_shown(done.stderr, tmp_path, "__init__")


def test_a_close_that_raises_is_known_before_training(lift, tmp_path):
    done = lift("train", "lift.toml", "--set", "env.closes=false")
    assert done.exit_code == 1
    assert_shown(done.stderr, tmp_path, "close")
    assert "the environment's close raised ZeroDivisionError" in done.stderr


def test_checking_with_steps_plays_the_environment(lift):
    done = lift("check", "lift.toml", "--set", "env.fail_at=99", "--steps", "65")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == (
        "lift.toml: 65 decisions of env lift_that_falls:Lift: 2 episodes ended, mean reward 30"
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (['env.kind="floor"'], ["'observation' lies outside", "received: 4", "Discrete(4)", "seed 5", "step 13"]),
        (['env.kind="masked"'], ["'action_mask' forbids every choice", "[0, 0]", "step 13"]),
        (['env={use="gym",id="CartPole-v9"}'], ["CartPole"]),
        (['env={use="gym",id="ALE/Nothing-v5"}'], ["ALE/Nothing-v5"]),
        (
            ["env.fail_at=99", 'wrappers=[{use="observation-normalization"},{use="time-limit",max_episode_steps=5}]'],
            ["observation-normalization", "time-limit"],
        ),
        (["env.fail_at=99", 'wrappers=[{use="rgb2gray",observation="observation"}]'], ["rgb2gray"]),
        (["env.fail_at=99", 'model={use="auto",distributions=[{use="beta"}]}'], ["'action'", "Discrete(2)"]),
    ],
)
def test_what_is_wrong_with_an_environment_is_found(lift, settings, words):
    overrides = [part for setting in settings for part in ("--set", setting)]
    assert lift("check", "lift.toml", *overrides).exit_code == 0  # nothing that can be seen without building it
    done = lift("check", "lift.toml", *overrides, "--steps", "40", "--seed", "5")
    assert done.exit_code != 0
    for word in words:
        assert word in done.stderr


def test_playing_needs_the_runtime_and_says_so(lift, monkeypatch):
    from maze_kernel import builtin
    from maze_kernel.cli import experiments
    from maze_kernel.loader import Kernel

    monkeypatch.setattr(experiments, "read_experiment", lambda *_: type("Loaded", (), {"experiment": None})())
    monkeypatch.setattr(experiments, "show_valid", lambda *_: None)
    monkeypatch.setattr(Kernel, "installed", lambda **_: Kernel.of(builtin))
    done = lift("check", "lift.toml", "--steps", "5")
    assert done.exit_code == 2
    assert "pip install maze-runtime" in done.stderr


def test_frames_of_the_framework_are_left_out_and_the_call_into_a_library_stays():
    from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

    def caught(function):
        try:
            function()
        except Exception as error:
            return user_traceback(error)

    def own():
        try:
            json.loads("{")
        except ValueError as error:
            raise KeyError("mine") from error

    text = caught(own)
    assert "in own" in text
    assert "json" in text
    assert "direct cause" in text
    text = caught(lambda: SequentialVectorEnv([own]))
    assert "sequential_vector.py" not in text.partition("KeyError")[0]
