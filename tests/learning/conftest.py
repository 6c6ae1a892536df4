"""Trains an experiment given as a dict in a temporary run directory, as `maze train` would."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_kernel.training.loop import train

PROBE = "maze_kernel.testing.environments:"


@pytest.fixture(scope="session")
def kernel():
    return Kernel.installed()


@pytest.fixture
def learn(kernel, tmp_path):
    """Train and return the result: `learn(env=..., trainer=..., **tables)`."""

    def run(**tables):
        data = {"name": "learning", "loggers": [{"use": "csv"}], **tables}
        loaded = experiment_from_mapping(data, kernel=kernel)
        return train(loaded, kernel, run_dir=tmp_path / "run", verbosity=-1)

    return run


@pytest.fixture(params=["ppo", "a2c"])
def trainer(request):
    """Options of a small, fast learner for probe environments."""
    common = {
        "use": request.param,
        "n_epochs": 8,
        "epoch_length": 25,
        "patience": 0,
        "n_rollout_steps": 16,
        "lr": 3e-3,
        "gamma": 0.9,
        "gae_lambda": 0.95,
        "entropy_coef": 0.001,
        "max_grad_norm": 0.5,
    }
    if request.param == "ppo":
        common |= {"batch_size": 64, "n_optimization_epochs": 2}
    return common
