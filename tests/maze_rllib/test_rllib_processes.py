"""A run in a process of its own: what it says, and what it leaves behind."""

import os
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

pytest.importorskip("ray", reason="Ray is not installed")

EXPERIMENT = """
name = "quiet"
[env]
use = "gym"
id = "CartPole-v1"
[evaluation]
n_episodes = 1
[trainer]
use = "rllib"
n_epochs = 1
[trainer.config]
train_batch_size_per_learner = 64
minibatch_size = 64
num_epochs = 1
num_env_runners = {n_env_runners}
[[loggers]]
use = "console"
progress_interval_seconds = 1000
"""


MAZE = "from maze_kernel.cli import main; main()"


def left(folder):
    """Processes that work below a folder."""
    commands = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    return [command[0] for command in commands if any(folder in part for part in command)]


@pytest.mark.parametrize("n_env_runners", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_says_what_other_runs_say_and_leaves_no_process(tmp_path, n_env_runners):
    (tmp_path / "quiet.toml").write_text(EXPERIMENT.format(n_env_runners=n_env_runners))
    with tempfile.TemporaryDirectory(prefix="maze", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, "RAY_TMPDIR": folder, "HOME": str(tmp_path)}
        result = subprocess.run(
            [sys.executable, "-c", MAZE, "train", "quiet.toml", "--out", "run"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert os.listdir(folder)  # Ray was there
        deadline = time.monotonic() + 20
        while left(folder) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left(folder)
    lines = result.stderr.splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == ["run", "the", "trainer", "epoch", "done:"]
    assert not (tmp_path / "ray_results").exists()
