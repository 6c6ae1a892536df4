"""Behavioural cloning reaches its teacher: the figures of maze_bc's README, seed by seed."""

import os
from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.playing.roll_out import RolloutOptions, roll_out
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = [int(seed) for seed in os.environ.get("MAZE_LEARNING_SEEDS", "0").split(",")]


def clone(example, demonstrations, seed, run_dir):
    """Mean reward of 100 episodes with the best weights, and the updates it took."""
    overrides = [f"seed={seed}", f'trainer.demonstrations={{path="{demonstrations}"}}', "evaluation.n_episodes=0"]
    loaded = load_experiment(EXAMPLES / example, overrides=[*overrides, 'loggers=[{use="csv"}]'])
    train(loaded, loaded.kernel, run_dir=run_dir, verbosity=-1)
    options = RolloutOptions(n_episodes=100, seed=1000, n_workers=1)
    result = roll_out(loaded, loaded.kernel, options, checkpoint=load_checkpoint(run_dir, "best"))
    last = load_checkpoint(run_dir, "last").trainer
    return result.summary["reward"]["mean"], last["n_updates"]


def record(loaded, folder, n_episodes, seed, **who):
    """Record episodes of a policy or a checkpoint."""
    options = RolloutOptions(n_episodes=n_episodes, seed=seed, n_workers=1, record_dir=folder)
    roll_out(loaded, loaded.kernel, options, **who)
    return folder


@pytest.mark.parametrize("seed", SEEDS)
def test_cartpole_from_5_episodes_of_a_trained_policy(tmp_path, seed):
    loaded = load_experiment(EXAMPLES / "cartpole_ppo.toml", overrides=[f"seed={seed}", 'loggers=[{use="csv"}]'])
    teacher = train(loaded, loaded.kernel, run_dir=tmp_path / "teacher", verbosity=-1)
    checkpoint = load_checkpoint(teacher.run_dir, "best")
    demonstrations = record(loaded, tmp_path / "demonstrations", 5, seed, checkpoint=checkpoint)
    reward, n_updates = clone("cartpole_bc.toml", demonstrations, seed, tmp_path / "run")
    assert n_updates <= 2000
    assert reward == 500.0


@pytest.mark.parametrize("seed", SEEDS)
def test_lunar_lander_from_20_heuristic_episodes(tmp_path, seed):
    loaded = load_experiment(EXAMPLES / "lunarlander_bc.toml")
    demonstrations = record(loaded, tmp_path / "demonstrations", 20, seed, policy="lunar-lander-heuristic")
    reward, n_updates = clone("lunarlander_bc.toml", demonstrations, seed, tmp_path / "run")
    assert n_updates <= 2000
    assert reward >= 220.0
