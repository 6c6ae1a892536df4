"""What the tests of the trackers share: run directories, epochs with every kind of statistic, runs that are killed."""

import csv
import json
import os
import socket
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec

import attrs
import numpy as np
import pytest

from maze_kernel.contracts.logger import EpochRecord, LoggerContext
from maze_kernel.errors import PluginError

DEADLINE = 240.0
TRAINING = """
name = "pole"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 4
[trainer]
use = "ppo"
n_epochs = 6
epoch_length = 1
patience = 0
[evaluation]
n_episodes = 1
[checkpoint]
every_epochs = 2
[[loggers]]
use = "csv"
[[loggers]]
use = "drawing"
"""
MAZE = (sys.executable, "-c", "from maze_kernel.cli import main; main()")


def store_run(run_dir, experiment=None):
    """The run.json of a run that is written to by hand."""
    record = {"format": 1, "name": "toy", "overrides": ["trainer.lr=0.5"], "python": "3.11.1"}
    record["experiment"] = experiment or {"trainer": {"use": "toy", "lr": 0.5, "hidden": [64, 64]}}
    run_dir.mkdir(exist_ok=True)
    (run_dir / "run.json").write_text(json.dumps(record))
    return run_dir


def pretend_installed(monkeypatch):
    """Let loggers be built, which then never write, as if their trackers' packages were there."""
    found = ModuleSpec("tracker", None, origin="tracker.py")
    monkeypatch.setattr("maze_runtime.run.tracking.find_spec", lambda _: found)


def check_package_is_asked_for(monkeypatch, run_dir, logger, options, package):
    """Without its package a logger is refused, with what to install."""
    monkeypatch.setattr("maze_runtime.run.tracking.find_spec", lambda _: None)
    name = logger.__name__.removesuffix("Logger").lower()
    with pytest.raises(PluginError, match=f"logger '{name}' needs") as error:
        logger(context(run_dir), options())
    assert error.value.help.startswith(f"pip install {package}, ")


def check_package_stays_unimported(package):
    """Neither the module of the logger nor the list of plugins imports the tracker's package."""
    code = (
        "import sys\n"
        f"import maze_{package}.logger\n"
        "from maze_kernel.loader import Kernel\n"
        f"assert any(plugin.name == 'maze-{package}' for plugin in Kernel.installed().plugins)\n"
        f"assert '{package}' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def context(run_dir, resumed_epoch=0):
    return LoggerContext(run_dir=run_dir, name="toy", n_epochs=9, max_env_steps=0, resumed_epoch=resumed_epoch)


def record(epoch, **train):
    train = {"A/x": float(epoch), "A/nan": float("nan"), **train}
    evaluation = {"A/x": -1.0} if epoch % 2 == 0 else {}
    return EpochRecord(epoch=epoch, env_steps=10 * epoch, wall_seconds=1.5, train=train, evaluation=evaluation)


def rich_record(epoch):
    """Numbers, an array, a text and a figure."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2, 3])
    return record(epoch, array=np.arange(5.0), note=f"epoch {epoch}", figure=figure)


def begin_training(folder, *arguments, **environment):
    """`maze train ...` in a process of its own."""
    # A process of W&B that serves this one, and outlives its children, would keep what a killed child had begun.
    inherited = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    environment = {**inherited, "OMP_NUM_THREADS": "1", **environment}
    command = [*MAZE, "train", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def train(folder, *arguments, **environment):
    """What `maze train ...` printed."""
    process = begin_training(folder, *arguments, **environment)
    printed, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, printed
    return printed


def kill_after(process, run_dir, epoch):
    """SIGKILL as soon as `tracker.json` says that this epoch was logged."""
    until = time.monotonic() + DEADLINE
    while last_logged(run_dir) < epoch and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.kill()
    printed, _ = process.communicate()
    assert last_logged(run_dir) >= epoch, printed


def last_logged(run_dir):
    path = run_dir / "tracker.json"
    runs = json.loads(path.read_text())["runs"].values() if path.exists() else ()
    return max((run.get("epoch", 0) for run in runs), default=0)


def check_whole(run_dir, n_epochs):
    """The other files of a run are what they are without a tracker."""
    with open(run_dir / "statistics" / "train.csv", newline="") as file:
        written = [(int(row["epoch"]), row["tag"]) for row in csv.DictReader(file)]
    assert len(written) == len(set(written))
    assert {epoch for epoch, _ in written} == {*range(1, n_epochs + 1)}
    assert (run_dir / "checkpoints" / "last").resolve().name == f"epoch-{n_epochs:06d}"
    assert f"all {n_epochs} epochs done" in (run_dir / "log.txt").read_text()


@attrs.frozen
class Unanswering:
    """An address where somebody listens and never answers; a context manager."""

    listener: socket.socket = attrs.field(factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


NOBODY = "http://127.0.0.1:9"
"""Where nobody listens: the port of the protocol "discard"."""
