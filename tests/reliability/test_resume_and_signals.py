"""Promises 2, 3, 5 and 12 on the command line and with a real algorithm."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from maze_runtime.training.checkpoint_store import CheckpointStore

TOY_PLUGIN = Path(__file__).parents[1] / "toys" / "toy_plugin.py"

CARTPOLE = """
name = "cartpole"
seed = 5
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 4
mode = "{mode}"
[[wrappers]]
use = "observation-normalization"
statistics = "running"
[trainer]
use = "{trainer}"
n_epochs = {n_epochs}
epoch_length = 2
n_rollout_steps = 32
lr = {{ start = 1e-3, end = 1e-4, shape = "cosine" }}
max_env_steps = 10_000
{more}
[evaluation]
n_episodes = 2
[checkpoint]
every_epochs = 2
[[loggers]]
use = "csv"
"""

MORE = {"ppo": "", "a2c": "", "sac": "initial_buffer_size = 200\nbatch_size = 16"}
"""Options of a trainer beyond those that all have."""


def cartpole(trainer, mode, n_epochs):
    return CARTPOLE.format(trainer=trainer, mode=mode, n_epochs=n_epochs, more=MORE[trainer])


TOY = """
name = "toy"
[plugins]
load = ["toy_plugin.py"]
[env]
use = "toy-env"
[model]
use = "toy-model"
[trainer]
use = "toy-trainer"
n_epochs = {n_epochs}
signal_file = "{signal_file}"
[checkpoint]
every_epochs = 1000
[[loggers]]
use = "console"
[[loggers]]
use = "csv"
"""


def maze(*arguments, cwd, check=True, **environment):
    command = [
        sys.executable,
        "-c",
        "import sys; from maze_kernel.cli import main; sys.exit(main())",
        *map(str, arguments),
    ]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def saved(run_dir, epoch):
    folder = run_dir / "checkpoints" / f"epoch-{epoch:06d}"
    state = json.loads((folder / "state.json").read_text())
    state["state"]["loop"]["wall_seconds"] = 0
    return [(folder / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")], state


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "sequential", "subprocess"])
@pytest.mark.parametrize("trainer", list(MORE))
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, trainer, mode):
    (tmp_path / "e.toml").write_text(cartpole(trainer, mode, n_epochs=4))
    maze("train", "e.toml", "--out", "whole", cwd=tmp_path)
    shutil.copytree(tmp_path / "whole", tmp_path / "part", symlinks=True)
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "epoch-000004")  # as if it had crashed before saving
    maze("train", "--resume", "part", cwd=tmp_path)
    assert "resumed from epoch 2" in (tmp_path / "part" / "log.txt").read_text()
    assert saved(tmp_path / "part", 4) == saved(tmp_path / "whole", 4)


@pytest.mark.slow
def test_hash_seed_and_working_directory_change_nothing(tmp_path):
    results = []
    for index in range(2):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "e.toml").write_text(cartpole("ppo", "auto", n_epochs=2))
        cwd = folder if index else tmp_path
        maze("train", folder / "e.toml", "--out", folder / "run", cwd=cwd, PYTHONHASHSEED=str(index + 1))
        results.append(saved(folder / "run", 2))
    assert results[0] == results[1]


def start_toy(folder, n_epochs=100_000):
    (folder / "toy_plugin.py").write_text(TOY_PLUGIN.read_text())
    signal_file = folder / "epochs.txt"
    (folder / "toy.toml").write_text(TOY.format(n_epochs=n_epochs, signal_file=signal_file))
    command = [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())"]
    process = subprocess.Popen(
        [*command, "train", "toy.toml", "--out", "run"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if signal_file.exists() and len(signal_file.read_text().splitlines()) >= 3:
            return process
        time.sleep(0.05)
    raise AssertionError(process.communicate()[1])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_a_checkpoint_and_exits_130(tmp_path, number):
    process = start_toy(tmp_path)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    epochs = len((tmp_path / "epochs.txt").read_text().splitlines())
    assert CheckpointStore(tmp_path / "run").pointed("last") == epochs
    after = [line for line in (stderr + stdout).splitlines() if not line.startswith(("epoch ", "run directory"))]
    assert len(after) <= 3, after
    assert any("--resume" in line for line in after)
    maze("train", "toy.toml", "--resume", "run", "--set", f"trainer.n_epochs={epochs + 2}", cwd=tmp_path)
    assert CheckpointStore(tmp_path / "run").pointed("last") == epochs + 2


@pytest.mark.slow
def test_memory_files_and_threads_stay_flat(tmp_path):
    process = start_toy(tmp_path)
    proc = Path(f"/proc/{process.pid}")

    def usage():
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return int(status["VmRSS"].split()[0]), len(list((proc / "fd").iterdir())), int(status["Threads"])

    def wait_for(n_epochs):
        deadline = time.monotonic() + 120
        while len((tmp_path / "epochs.txt").read_text().splitlines()) < n_epochs and time.monotonic() < deadline:
            time.sleep(0.1)

    try:
        wait_for(150)
        before = usage()
        wait_for(750)
        after = usage()
    finally:
        process.kill()
        process.communicate()
    assert after[0] - before[0] < 3_000, "resident memory in KiB grew over 600 epochs"
    assert after[1:] == before[1:]
