"""Training that goes astray with finite numbers is named once a cause; training that does well is left alone."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import experiment_from_mapping
from maze_runtime.context_components import component_table
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.training.divergence import DivergenceWatch
from maze_runtime.training.train import train


class GrowingRewards(FlatEnv):
    """Pays ten times as much in every episode as in the one before."""

    structured_spaces = flat_spaces(
        spaces.Dict(level=spaces.Box(-1, 1, (1,), np.float32)), spaces.Dict(valve=spaces.Discrete(2))
    )

    def __init__(self):
        self.n_episodes = 0

    def reset(self, *, seed=None, options=None):
        self.t, self.n_episodes = 0, self.n_episodes + 1
        return {"level": np.zeros(1, np.float32)}, {}

    def step(self, action):
        self.t += 1
        return {"level": np.zeros(1, np.float32)}, 10.0**self.n_episodes, False, self.t >= 32, {}


def log_of(kernel, run_dir, env, **trainer):
    data = {
        "name": "astray",
        "seed": 1,
        "env": component_table(kernel, "env", env),
        "vector": {"n_envs": 4},
        "trainer": {"use": "ppo", "n_epochs": 5, "epoch_length": 2, "n_rollout_steps": 32, **trainer},
        "evaluation": {"n_episodes": 0},
        "loggers": [{"use": "csv"}],
        "wrappers": [],
    }
    train(experiment_from_mapping(data, kernel=kernel), kernel, run_dir=run_dir)
    return [line for line in (run_dir / "log.txt").read_text().splitlines() if "warning" in line]


CARTPOLE = "CartPole-v1"


@pytest.mark.parametrize("trainer", ["ppo", "a2c"])
def test_training_that_does_well_is_left_alone(kernel, tmp_path, trainer):
    assert log_of(kernel, tmp_path / "run", CARTPOLE, use=trainer) == []


def test_a_learning_rate_that_destroys_the_policy_is_named_once(kernel, tmp_path):
    (line,) = log_of(kernel, tmp_path / "run", CARTPOLE, lr=0.5)
    assert "KL divergence" in line
    assert "lower trainer.lr" in line


@pytest.mark.parametrize("trainer", ["ppo", "a2c"])
def test_rewards_that_explode_are_named_once(kernel, tmp_path, trainer):
    lines = log_of(kernel, tmp_path / "run", GrowingRewards, use=trainer)
    (line,) = [line for line in lines if "gradient norm" in line]
    assert "ActorCriticEvents/grad_norm" in line
    assert "return-normalization" in line


def test_a_part_of_a_gradient_may_grow_where_the_whole_does_not():
    said = []
    watch = DivergenceWatch(said.append)
    for epoch, norm in enumerate([1e-3, 1e-3, 10.0]):
        watch.see(epoch, {"ActorCriticEvents/grad_norm": 20.0, "ActorCriticEvents/policy_grad_norm": norm})
    assert said == []


def test_a_norm_that_is_always_small_or_vanishes_is_sane():
    said = []
    watch = DivergenceWatch(said.append)
    for epoch, norm in enumerate([1e-7, 1e-6, 0.0, 0.0, 3e-6, 5e-7, 2e-4]):
        watch.see(epoch, {"SACEvents/policy_grad_norm": norm, "SACEvents/entropy": 1e9})
    assert said == []
    watch.see(8, {"SACEvents/policy_grad_norm": 1.0})
    watch.see(9, {"SACEvents/policy_grad_norm": 1.0, "SACEvents/critic_grad_norm": 1e7})
    assert len(said) == 1
