import importlib
from pathlib import Path

import pytest

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel, find_file
from maze_runtime.training.resume import stored_experiment
from maze_runtime.training.train import train

TOY_PLUGIN = Path(__file__).parents[2] / "toys" / "toy_plugin.py"


class Toy:
    """Trains the toy experiment with changes."""

    def __init__(self, kernel, folder):
        self.kernel = kernel
        self.folder = folder

    def load(self, overrides=(), **tables):
        data = {
            "name": "toy",
            "seed": 3,
            "env": {"use": "toy-env"},
            "model": {"use": "toy-model"},
            "trainer": {"use": "toy-trainer"},
            "vector": {"n_envs": 3},
            "evaluation": {"n_episodes": 4},
            "checkpoint": {"every_epochs": 2},
            "loggers": [{"use": "csv"}],
            **tables,
        }
        return experiment_from_mapping(data, kernel=self.kernel, overrides=overrides)

    def train(self, name, *overrides, tables=None, **arguments):
        return train(self.load(overrides, **(tables or {})), self.kernel, run_dir=self.folder / name, **arguments)

    def resume(self, name, *overrides, **arguments):
        loaded = stored_experiment(self.folder / name, overrides=overrides, kernel=self.kernel)
        return train(loaded, self.kernel, resume=self.folder / name, **arguments)


@pytest.fixture(scope="session")
def toy_kernel():
    return Kernel.installed(load=[TOY_PLUGIN])


@pytest.fixture
def toy(toy_kernel, tmp_path):
    return Toy(toy_kernel, tmp_path)


@pytest.fixture(scope="session")
def toy_module():
    source = find_file(TOY_PLUGIN).load()
    return importlib.import_module(source.__name__)
