"""Sweeps over small runs: PPO on an environment whose best action is the observation."""

import pytest

from maze_kernel.errors import ExperimentError

EXPERIMENT = """
name = "small"

[env]
use = "maze_testing.environments:Identity"

[vector]
n_envs = 2

[[wrappers]]
use = "time-limit"
max_episode_steps = 10

[trainer]
use = "ppo"
n_epochs = 3
epoch_length = 1
n_rollout_steps = 8
batch_size = 8
n_optimization_epochs = 1

[checkpoint]
every_epochs = 1

[evaluation]
n_episodes = 2

[[loggers]]
use = "csv"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with `small.toml` in it."""
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def load(folder):
    """`load(text)` reads the file of a sweep over `small.toml`."""
    from maze_sweeps.sweep_reading import load_sweep

    def load_text(text, **options):
        file = folder / "sweep.toml"
        file.write_text('experiment = "small.toml"\n' + text)
        return load_sweep(file, **options)

    return load_text


@pytest.fixture
def problems(load):
    """`problems(text)`: every problem of a sweep."""

    def problems_of(text, **options):
        with pytest.raises(ExperimentError) as caught:
            load(text, **options)
        return caught.value.problems

    return problems_of
