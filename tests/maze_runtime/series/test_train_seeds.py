"""`maze train --seeds`, and what a run tells whoever asks for its epochs."""

import json
from pathlib import Path

import pytest

EXPERIMENT = """
name = "small"
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
[checkpoint]
every_epochs = 2
[evaluation]
n_episodes = 1
"""


@pytest.fixture
def experiment(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    return file


def test_seeds_are_trained_in_one_folder_and_shown_as_a_table(maze, experiment):
    done = maze("train", experiment, "--seeds", "3,5", "--parallel", "1", "--out", "both")
    assert done.exit_code == 0, done.output
    assert {path.name for path in Path("both").iterdir() if path.is_dir()} == {"seed-3", "seed-5"}
    assert json.loads(Path("both/series.json").read_text())["seeds"] == [3, 5]
    assert [line.split()[:3] for line in done.stdout.splitlines()[:3]] == [
        ["seed", "state", "epoch"],
        ["3", "done", "3"],
        ["5", "done", "3"],
    ]
