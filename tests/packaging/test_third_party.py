"""A package of a third party, from its wheel: everything it adds works beside what it declares, and nothing else."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ACME = Path(__file__).parents[1] / "third_party" / "maze_acme"
PIPES = """
[workers]
use = "acme-pipes"
count = 2
max_restarts = 1
"""
LEARNING = """
name = "parts"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 4
mode = "acme-threads"
n_threads = 2
[model]
use = "acme-q-network"
hidden_units = 8
[trainer]
use = "acme-q-learning"
n_epochs = 2
n_steps = 40
[evaluation]
n_episodes = 3
"""
CLONING = """
name = "cloning"
[env]
use = "gym"
id = "CartPole-v1"
[trainer]
use = "bc"
demonstrations = { use = "acme-csv", path = "episodes.csv" }
n_epochs = 2
batch_size = 4
[evaluation]
n_episodes = 2
"""
ACTING = """
name = "acting"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
mode = "acme-threads"
[trainer]
use = "impala"
n_epochs = 2
epoch_length = 2
num_actors = 2
actors_batch_size = 2
[evaluation]
n_episodes = 2
"""
EVOLVING = """
name = "evolving"
[env]
use = "gym"
id = "CartPole-v1"
[trainer]
use = "es"
n_epochs = 2
n_rollouts_per_update = 4
[evaluation]
n_episodes = 2
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def python(clean_environment):
    return clean_environment("maze_acme", extras={"maze_acme": ("test",)})


@pytest.fixture
def maze(python, tmp_path):
    return lambda *arguments, code=0: run(python.parent / "maze", *arguments, cwd=tmp_path, code=code)


def run(*command, cwd, code=0):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(part) for part in command]
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == code, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def episodes():
    """Two short episodes of CartPole, as a table."""
    yield "episode,observation.0,observation.1,observation.2,observation.3,action,reward,terminated,truncated"
    for episode in range(2):
        for step in range(9):
            place = f"{episode},{0.01 * step},0.1,{0.02 * (step % 3 - 1)},0"
            yield f"{place},{step % 2},1,0,{int(step == 7)}" if step < 8 else f"{place},,,,"


def test_its_own_tests_pass(python, tmp_path):
    shutil.copytree(ACME / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    run(python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tmp_path / "tests", cwd=tmp_path)


def test_its_parts_are_known_like_any_others(maze, tmp_path):
    listed = maze("list-plugins")
    assert "maze-processes" not in listed
    parts = ("acme-rewards", "acme-threads", "acme-csv", "acme-pipes", "acme-q-network", "acme-q-learning")
    assert [part for part in parts if part not in listed] == []
    described = maze("describe", "vector", "acme-threads")
    assert "n_threads" in described
    assert "steps a group of neighbouring environments" in described
    schema = json.dumps(json.loads(maze("schema")))
    options = (*parts[1:], "n_threads", "delimiter", "grace_seconds", "final_epsilon")
    assert [option for option in options if f'"{option}"' not in schema] == []
    (tmp_path / "x.toml").write_text(LEARNING.replace("n_threads", "n_thread"))
    refused = maze("check", "x.toml", code=2)
    assert "x.toml:9:1" in refused
    assert "n_thread" in refused
    assert "did you mean: n_threads" in refused
    assert "maze-acme 0.1.0" in refused


def test_a_run_of_its_parts_goes_on_and_is_played(maze, tmp_path):
    (tmp_path / "x.toml").write_text(LEARNING + PIPES)
    maze("train", "x.toml", "--out", "run")
    assert "after epoch 3" in maze("train", "--resume", "run", "--set", "trainer.n_epochs=3")
    assert "training episodes" in maze("acme-rewards", "run")
    arguments = ("--episodes", "4", "--stochastic", "--json")
    alone = json.loads(maze("rollout", "run", *arguments, "--workers", "1"))
    assert len(alone["episodes"]) == 4
    assert json.loads(maze("rollout", "run", *arguments, "--workers", "2"))["episodes"] == alone["episodes"]


@pytest.mark.parametrize("experiment", [CLONING, ACTING, EVOLVING], ids=["bc", "impala", "es"])
def test_algorithms_learn_on_its_pool(experiment, maze, tmp_path):
    (tmp_path / "episodes.csv").write_text("\n".join(episodes()) + "\n")
    (tmp_path / "x.toml").write_text(experiment + PIPES)
    maze("train", "x.toml", "--out", "run")
    assert [*(tmp_path / "run").rglob("model.safetensors")]
    assert "after epoch 3" in maze("train", "--resume", "run", "--set", "trainer.n_epochs=3")
    played = json.loads(maze("rollout", "run", "--episodes", "3", "--json"))
    assert [episode["error"] for episode in played["episodes"]] == [None] * 3
