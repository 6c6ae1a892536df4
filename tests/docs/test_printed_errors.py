"""The errors that pages show, experiment-file.md and how-the-parts-fit.md, are those that are printed."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("docs_printed", Path(__file__).with_name("pages_in_order.py"))
in_order = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(in_order)


def shown(page):
    """The block of a page that this file is named for."""
    (text,) = re.findall(
        r"<!-- test: by tests/docs/test_printed_errors.py -->\n```text\n(.*?)```", (ROOT / page).read_text(), re.S
    )
    return text


def test_an_unknown_option_is_shown_with_its_line(maze):
    lines = ['name = "cartpole"', "", "[env]", 'use = "gym"', 'id = "CartPole-v1"', "", "[vector]", "n_envs = 4"]
    Path("cartpole.toml").write_text("\n".join([*lines, "", "[trainer]", 'use = "ppo"', "gama = 0.9", ""]))
    done = maze("check", "cartpole.toml")
    assert done.exit_code == 2
    assert in_order.unlike(shown("docs/reference/experiment-file.md"), done.stderr) is None, done.stderr
    assert "cartpole.toml:12:1" in shown("docs/reference/experiment-file.md")
    assert "cartpole.toml:12:1" in done.stderr


# It meets a house without floors in the second epoch: training begins its episodes anew behind a checkpoint.
LIFT = """import gymnasium
import numpy as np
from gymnasium import spaces


class Lift(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)
    total = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time, self.total = self.time + 1, self.total + 1
        people, floors = 4, 1 - self.total // 107
        self.share = people / floors
        return np.zeros(1, np.float32), 1.0, False, self.time == 30, {}
"""
EXPERIMENT = """
name = "lift"
[env]
use = "lift:Lift"
[vector]
n_envs = 4
mode = "subprocess"
n_processes = 2
[trainer]
use = "ppo"
n_epochs = 3
epoch_length = 1
n_rollout_steps = 64
[evaluation]
n_episodes = 1
[checkpoint]
every_epochs = 1
"""


@pytest.mark.slow
def test_an_environment_that_raises_is_shown_with_its_code_and_what_to_do(tmp_path):
    (tmp_path / "lift.py").write_text(LIFT)
    (tmp_path / "lift.toml").write_text(EXPERIMENT)
    done, printed = in_order.PageRun(ROOT / "README.md", tmp_path, ROOT).run([*in_order.MAZE, "train", "lift.toml"])
    assert done.returncode == 1
    printed = printed.replace(f"{tmp_path}/", "")
    assert in_order.unlike(shown("docs/explanation/how-the-parts-fit.md"), printed) is None, printed
