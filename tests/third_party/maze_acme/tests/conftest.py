"""What the tests share: a kernel of this plugin and those that it is tried with, and experiments on it."""

import pytest

import maze_acme.plugin
import maze_bc.plugin
import maze_csv.plugin
import maze_distributions.plugin
import maze_es.plugin
import maze_gym.plugin
import maze_impala.plugin
import maze_kernel.builtin
import maze_perception.plugin
import maze_runtime.plugin
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: starts processes")


@pytest.fixture(scope="session")
def kernel():
    """This plugin and those it is tried with, whatever else is installed."""
    kernel = Kernel.of(
        maze_kernel.builtin,
        maze_runtime.plugin,
        maze_gym.plugin,
        maze_perception.plugin,
        maze_distributions.plugin,
        maze_csv.plugin,
        maze_bc.plugin,
        maze_es.plugin,
        maze_impala.plugin,
        maze_acme.plugin,
    )
    assert {plugin.name: plugin.cause for plugin in kernel.plugins if plugin.status != "active"} == {}
    return kernel


@pytest.fixture
def context_of(kernel, tmp_path):
    """`context_of(trainer, **overrides)` -> RunContext of a small experiment."""

    def make(trainer, name="run", env="CartPole-v1", **overrides):
        return RunContext(
            env=env,
            trainer=trainer,
            overrides={"vector.n_envs": 4, "evaluation.n_episodes": 2, "seed": 3, **overrides},
            run_dir=tmp_path / name,
            silent=True,
            kernel=kernel,
        )

    return make
