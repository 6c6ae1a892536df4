"""Trains an experiment given as a dict in a temporary run directory, as `maze train` would."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.training.train import train

PROBE = "maze_testing.environments:"


@pytest.fixture(scope="session")
def kernel():
    return Kernel.installed()


@pytest.fixture
def learn(kernel, tmp_path):
    """Train and return the result: `learn(env=..., trainer=..., **tables)`."""

    def run(**tables):
        data = {"name": "learning", "loggers": [{"use": "csv"}], "vector": {"n_envs": 8}, "wrappers": [], **tables}
        loaded = experiment_from_mapping(data, kernel=kernel)
        return train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)

    return run


def small_learner(use):
    """Options of a small, fast learner for probe environments."""
    options = {
        "use": use,
        "n_epochs": 8,
        "epoch_length": 25,
        "patience": 0,
        "n_rollout_steps": 16,
        "lr": 3e-3,
        "gamma": 0.9,
        "entropy_coef": 0.001,
        "max_grad_norm": 0.5,
    }
    own = {
        "ppo": {"gae_lambda": 0.95, "batch_size": 64, "n_optimization_epochs": 2},
        "a2c": {"gae_lambda": 0.95},
        "impala": {"num_actors": 16, "actors_batch_size": 8},
    }
    return {**options, **own[use]}


@pytest.fixture(params=["ppo", "a2c"])
def trainer(request):
    """Options of a trainer that collects and learns in turn."""
    return small_learner(request.param)


@pytest.fixture(params=["ppo", "a2c", "impala"])
def actor_critic(request):
    """Options of any trainer of an actor-critic that values states. Half of IMPALA's rollouts lag one update behind."""
    return small_learner(request.param)
