"""Recordings to look at, and a browser to look with."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_kernel.cli.app import make_app

CUTTING = """
name = "cut <b>"
[env]
use = "cutting-2d"
version = "masked"
max_episode_steps = 3
[trainer]
use = "ppo"
"""
CARTPOLE = """
name = "pole"
[env]
use = "gym"
id = "CartPole-v1"
max_episode_steps = 12
[trainer]
use = "ppo"
"""


@pytest.fixture
def maze(tmp_path, monkeypatch):
    """Runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(make_app(), [str(argument) for argument in arguments])


@pytest.fixture
def record(maze, tmp_path):
    """Records episodes of an experiment file's text."""

    def record(text, *options, episodes=2, folder="rec", policy="random"):
        (tmp_path / "experiment.toml").write_text(text.replace(" <b>", ""))
        done = maze(
            "rollout", "experiment.toml", "--episodes", episodes, "--record-to", folder, "--policy", policy, *options
        )
        assert Path(folder, "trajectories.json").exists(), done.output
        return Path(folder)

    return record


@pytest.fixture
def cutting(record):
    return lambda *options, extra="", **more: record(CUTTING + extra, *options, policy="cutting-2d-greedy", **more)


@pytest.fixture
def cartpole(record):
    return lambda *options, **more: record(CARTPOLE, *options, **more)


@pytest.fixture
def browser(tmp_path):
    """Runs headless Chromium on a page: `browser(page, "--dump-dom")` gives its output."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")

    def run(page, *options, place=""):
        command = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,900",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", *options,
            f"{Path(page).resolve().as_uri()}#{place}",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            return process.communicate(timeout=90)[0].decode()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    return run
