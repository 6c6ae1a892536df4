"""ES learns every action space, and its reference figure holds seed by seed."""

from pathlib import Path

import pytest

from maze_kernel.config import load_experiment
from maze_runtime.training.train import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
PROBE = "maze_testing.environments:"
SEARCH = {
    "use": "es",
    "n_epochs": 150,
    "n_rollouts_per_update": 32,
    "noise_stddev": 0.1,
    "l2_penalty": 0.0,
    "optimizer": {"use": "adam", "step_size": 0.05},
    "noise": {"use": "seeded"},
    "deterministic": False,
}


@pytest.mark.parametrize(
    ("kind", "threshold"), [("discrete", 7.5), ("multi-discrete", 7.0), ("multi-binary", 7.4), ("box", 6.8)]
)
def test_every_action_space_learns_the_identity(learn, kind, threshold):
    result = learn(
        env={"use": PROBE + "Identity", "kind": kind},
        trainer=SEARCH,
        vector={"n_envs": 16},
        model={"use": "auto", "hidden_units": [16]},
        evaluation={"n_episodes": 20, "every_epochs": 10},
    )
    assert result.best_metric >= threshold


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_carried_state_remembers_the_first_observation(learn, cell):
    """Without a memory a quarter of the reward is to be had."""
    result = learn(
        env={"use": PROBE + "RepeatFirst", "n_steps": 5},
        trainer={**SEARCH, "n_epochs": 250, "n_rollouts_per_update": 64},
        vector={"n_envs": 16},
        model={"use": "auto", "hidden_units": [16], "recurrence": {"use": cell, "hidden_size": 16, "stateful": True}},
        evaluation={"n_episodes": 20, "every_epochs": 10},
    )
    assert result.best_metric >= 0.7


def test_masks_and_dict_actions(learn):
    result = learn(
        env={"use": PROBE + "MaskedDict"},
        trainer={**SEARCH, "n_epochs": 300},
        vector={"n_envs": 16},
        model={"use": "auto", "hidden_units": [16]},
        evaluation={"n_episodes": 20, "every_epochs": 10},
    )
    assert result.best_metric >= 13.0


@pytest.mark.timeout(1800)
def test_cartpole_is_solved_within_100_000_steps(kernel, tmp_path):
    rewards = []
    for seed in range(5):
        overrides = [f"seed={seed}", 'loggers=[{use="csv"}]', "trainer.max_env_steps=100_000"]
        loaded = load_experiment(EXAMPLES / "cartpole_es.toml", overrides=overrides, kernel=kernel)
        rewards.append(train(loaded, kernel, run_dir=tmp_path / str(seed), verbosity=-1).best_metric)
    assert min(rewards) >= 475.0, rewards


@pytest.mark.timeout(1800)
def test_lunar_lander_is_solved_within_a_million_steps(kernel, tmp_path):
    pytest.importorskip("Box2D")
    overrides = ["seed=1", 'loggers=[{use="csv"}]']
    loaded = load_experiment(EXAMPLES / "lunarlander_es.toml", overrides=overrides, kernel=kernel)
    result = train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)
    assert result.best_metric >= 200.0
