"""The reference figures of the README: each example experiment reaches its reward within its budget, seed by seed."""

from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_kernel.training.loop import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def best_reward(kernel, tmp_path):
    """Train an example with a seed; returns the best mean evaluation reward."""

    def run(name, seed):
        overrides = [f"seed={seed}", 'loggers=[{use="csv"}]']
        loaded = load_experiment(EXAMPLES / name, overrides=overrides, kernel=kernel)
        return train(loaded, kernel, run_dir=tmp_path / str(seed), verbosity=-1).best_metric

    return run


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "threshold", "n_seeds", "n_needed"),
    [
        ("cartpole_ppo.toml", 475.0, 5, 5),
        ("cartpole_a2c.toml", 475.0, 5, 4),
        ("pendulum_ppo.toml", -200.0, 3, 3),
        ("acrobot_ppo.toml", -90.0, 3, 3),
        ("lunarlander_ppo.toml", 200.0, 3, 3),
    ],
)
def test_examples_reach_their_reward(best_reward, name, threshold, n_seeds, n_needed):
    rewards = [best_reward(name, seed) for seed in range(n_seeds)]
    assert sum(reward >= threshold for reward in rewards) >= n_needed, rewards
