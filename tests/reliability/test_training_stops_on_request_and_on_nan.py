"""Promises 5 and 6 on the command line: a second Ctrl-C, and numbers that are not finite, with a user's environment."""

import os
import signal
import subprocess
import sys
import time

import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow

ENVIRONMENT = """
import math
import time
from pathlib import Path

import numpy as np
from gymnasium import spaces
from maze_runtime.env.flat import FlatEnv, flat_spaces


class Weird(FlatEnv):
    structured_spaces = flat_spaces(
        spaces.Dict(level=spaces.Box(-1, 1, (1,), np.float32)), spaces.Dict(valve=spaces.Discrete(2))
    )

    def __init__(self, *, behaviour: str = "none", at_step: int = 5):
        self.behaviour, self.at_step = behaviour, at_step

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return {"level": np.zeros(1, np.float32)}, {}

    def step(self, action):
        self.t += 1
        level, reward = np.zeros(1, np.float32), 1.0
        if self.t == self.at_step:
            if self.behaviour == "nan observation":
                level[0] = math.nan
            if self.behaviour == "infinite reward":
                reward = math.inf
            if self.behaviour == "huge reward":
                reward = 1e38
            if self.behaviour in ("sleeps", "runs"):
                Path("stepping").touch()
            if self.behaviour == "sleeps":
                time.sleep(300)
        return {"level": level}, reward, False, self.t >= 50, {}
"""
EXPERIMENT = """
name = "weird"
wrappers = []
seed = 3
[env]
use = "weird_env:Weird"
behaviour = "{behaviour}"
[vector]
n_envs = 2
mode = "{mode}"
[trainer]
n_epochs = 3
n_rollout_steps = 32
epoch_length = {epoch_length}
{trainer}
[evaluation]
n_episodes = 0
"""
TRAINERS = {"ppo": 'use = "ppo"', "sac": 'use = "sac"\ninitial_buffer_size = 40\nbatch_size = 64'}
COMMAND = [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())"]


def start(tmp_path, behaviour, mode="sequential", trainer="ppo", epoch_length=1):
    (tmp_path / "weird_env.py").write_text(ENVIRONMENT)
    values = {"behaviour": behaviour, "mode": mode, "trainer": TRAINERS[trainer], "epoch_length": epoch_length}
    (tmp_path / "weird.toml").write_text(EXPERIMENT.format(**values))
    return subprocess.Popen(
        [*COMMAND, "train", "weird.toml", "--out", "run"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_steps(tmp_path):
    deadline = time.monotonic() + 120
    while not (tmp_path / "stepping").exists() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize("trainer", list(TRAINERS))
@pytest.mark.parametrize("mode", ["sequential", "subprocess"])
def test_an_interrupt_waits_for_one_update_and_not_for_the_epoch(tmp_path, mode, trainer):
    process = start(tmp_path, "runs", mode, trainer, epoch_length=10_000_000)
    wait_for_steps(tmp_path)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)  # the epoch takes hours
    assert process.returncode == 130, stderr
    assert "finishing this update" in stderr
    assert "interrupted after epoch 0; go on with: maze train weird.toml --resume run" in stdout
    lines = [line for line in (stderr + stdout).splitlines() if not line.startswith("epoch ")]  # of a slow machine
    assert len(lines) == 5, "the run directory, what is trained, until when, the answer, and how to go on"


@pytest.mark.parametrize("mode", ["sequential", "subprocess"])
def test_a_second_interrupt_leaves_at_once(tmp_path, mode):
    process = start(tmp_path, "sleeps", mode)
    wait_for_steps(tmp_path)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)  # the update is still running: the first one waits for its end
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=15)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    lines = [line for line in (stderr + stdout).splitlines() if not line.startswith(("epoch ", "run directory"))]
    assert len(lines) <= 4, "what is trained, until when, and an answer to each"


@pytest.mark.parametrize("trainer", list(TRAINERS))
@pytest.mark.parametrize("mode", ["sequential", "subprocess"])
@pytest.mark.parametrize(("behaviour", "key"), [("nan observation", "level"), ("infinite reward", "reward")])
def test_a_number_that_is_not_finite_names_environment_step_and_seed(tmp_path, behaviour, key, mode, trainer):
    _, stderr = start(tmp_path, behaviour, mode, trainer).communicate(timeout=120)
    assert "Traceback" not in stderr
    assert "Warning" not in stderr
    # Both environments fail in the same step; of two workers either may say so first.
    named = ("environment 0", "environment 1") if mode == "subprocess" else ("environment 0",)
    assert any(name in stderr for name in named), stderr
    for word in (key, "step 5", "seed"):
        assert word in stderr, stderr
    assert not list((tmp_path / "run").glob("checkpoints/epoch-*"))


@pytest.mark.parametrize("trainer", list(TRAINERS))
def test_a_loss_that_is_not_finite_leaves_the_batch_in_the_run_directory(tmp_path, trainer):
    process = start(tmp_path, "huge reward", trainer=trainer)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in stderr
    assert "non-finite-batch.safetensors" in stderr
    batch = load_file(tmp_path / "run" / "non-finite-batch.safetensors")
    assert batch["observation.level"].shape[1:] == (1,)
    assert not list((tmp_path / "run").glob("checkpoints/epoch-*"))
