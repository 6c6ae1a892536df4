"""The reference figures of the README: each example experiment reaches its reward within its budget.

One seed a run of the tests; all of the README's with `MAZE_LEARNING_SEEDS=0,1,2,3,4`.
"""

import os
from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = [int(seed) for seed in os.environ.get("MAZE_LEARNING_SEEDS", "0").split(",")]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "reward", "max_env_steps"),
    [
        ("cartpole_ppo.toml", 475.0, 50_000),
        ("cartpole_a2c.toml", 475.0, 100_100),
        ("pendulum_ppo.toml", -200.0, 100_000),
        ("pendulum_sac.toml", -170.0, 20_000),
        ("cartpole_sac.toml", 475.0, 35_000),
        ("acrobot_ppo.toml", -90.0, 100_000),
        ("mountaincar_td3.toml", 90.0, 40_000),
        ("lunarlander_ppo.toml", 200.0, 1_000_000),
    ],
)
def test_an_example_reaches_its_reward(kernel, tmp_path, name, seed, reward, max_env_steps):
    overrides = [f"seed={seed}", 'loggers=[{use="csv"}]', "evaluation.n_episodes=100"]
    loaded = load_experiment(EXAMPLES / name, overrides=overrides, kernel=kernel)
    result = train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert result.best_metric >= reward
    assert result.env_steps <= max_env_steps
