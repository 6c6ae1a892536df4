"""Tasks that need a memory: a carried state solves them, the same network without one does not."""

import os
from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = [int(seed) for seed in os.environ.get("MAZE_LEARNING_SEEDS", "0").split(",")]
FORGETFUL = 'model.recurrence={use="dense",hidden_units=[32],non_lin="tanh"}'


def best(kernel, run_dir, name, seed, *overrides):
    overrides = [f"seed={seed}", 'loggers=[{use="csv"}]', *overrides]
    loaded = load_experiment(EXAMPLES / name, overrides=overrides, kernel=kernel)
    return train(loaded, kernel, run_dir=run_dir, verbosity=-1).best_metric


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_carried_state_repeats_the_first_observation(kernel, tmp_path, seed):
    """Measured over three seeds: 1.0 with a memory, at most 0.40 without."""
    name = "repeat_first_recurrent_ppo.toml"
    assert best(kernel, tmp_path / "memory", name, seed) >= 0.95
    assert best(kernel, tmp_path / "none", name, seed, FORGETFUL) <= 0.5


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_policy_key_remembers_what_it_was_shown(kernel, tmp_path, seed):
    """Measured over three seeds: 1.0 with memories, at most 0.54 without."""
    name = "two_memories_recurrent_ppo.toml"
    assert best(kernel, tmp_path / "memory", name, seed) >= 0.95
    assert best(kernel, tmp_path / "none", name, seed, FORGETFUL) <= 0.7


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_carried_state_balances_without_velocities(kernel, tmp_path, seed):
    """Measured over three seeds: 489, 199 and 246 with a memory, at most 43 without."""
    name = "cartpole_masked_recurrent_ppo.toml"
    assert best(kernel, tmp_path / "memory", name, seed) >= 200.0
    assert best(kernel, tmp_path / "none", name, seed, FORGETFUL) <= 100.0
