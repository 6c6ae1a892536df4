"""Environments that are recorded in the tests of this folder."""

import numpy as np
import pytest
from gymnasium import spaces
from typer.testing import CliRunner

from maze_cutting2d.env import make_env as make_cutting_env
from maze_cutting2d.options import CuttingOptions
from maze_kernel.cli.app import make_app
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.simulation import Recording
from maze_trajectories.recording import RecordingEnv


class Counter(FlatEnv):
    """Observes the step count; ends after `n_steps`; reward is the action over ten."""

    structured_spaces = flat_spaces(
        spaces.Dict({"count": spaces.Box(-np.inf, np.inf, (2,), np.float32)}),
        spaces.Dict({"move": spaces.Discrete(3), "push": spaces.Box(-1, 1, (2,), np.float32)}),
    )

    def __init__(self, n_steps=4, fails_at=None):
        self.n_steps, self.fails_at, self.t = n_steps, fails_at, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        if self.t == self.fails_at:
            raise RuntimeError("the wheel came off")
        return self._observation(), float(action["move"]) / 10, self.t == self.n_steps, False, {}

    def _observation(self):
        return {"count": np.array([self.t, -self.t], np.float32)}


def action(move):
    return {"move": move, "push": np.full(2, move / 4, np.float32)}


@pytest.fixture
def counter():
    return Counter


@pytest.fixture
def record_counter(tmp_path):
    """Plays `n_episodes` of the counter with moves 0, 1, 2, 0, … into a folder."""

    def record(n_episodes=2, folder="recording", **options):
        env = RecordingEnv(Counter(**options), Recording(folder=tmp_path / folder, policy="clock"))
        for seed in range(10, 10 + n_episodes):
            env.reset(seed=seed)
            ended = False
            t = 0
            while not ended:
                *_, terminated, truncated, _ = env.step(action(t % 3))
                ended, t = terminated or truncated, t + 1
        env.close()
        return tmp_path / folder

    return record


@pytest.fixture
def cutting_env():
    """A cutting environment of a version, short episodes."""
    return lambda version="masked", steps=6: make_cutting_env(CuttingOptions(version=version, max_episode_steps=steps))


@pytest.fixture
def maze(tmp_path, monkeypatch):
    """Runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(make_app(), [str(argument) for argument in arguments])


CUTTING = """
name = "cut"
[env]
use = "cutting-2d"
version = "masked"
max_episode_steps = 5
[trainer]
use = "ppo"
"""


@pytest.fixture
def cutting_file(tmp_path):
    file = tmp_path / "cut.toml"
    file.write_text(CUTTING)
    return file
