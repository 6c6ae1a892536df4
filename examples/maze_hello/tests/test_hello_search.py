"""The trainer on CartPole; needs maze-gym, maze-perception and maze-distributions, which the extra `test` installs."""

import tomllib
from pathlib import Path

import pytest

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly
from maze_testing.trainers import check_trainer

EXPERIMENT = tomllib.loads((Path(__file__).parents[1] / "experiment.toml").read_text())


@pytest.fixture
def make_trainer():
    kernel = Kernel.installed(load=[Path(__file__).parents[1] / "src" / "maze_hello" / "plugin.py"])

    def make(**options):
        table = EXPERIMENT["trainer"] | options
        assembly = Assembly(experiment_from_mapping(EXPERIMENT | {"trainer": table}, kernel=kernel), kernel)
        return assembly.make_trainer(assembly.trainer_context())

    return make


def test_it_continues_where_it_was_saved(make_trainer):
    check_trainer(lambda: make_trainer(population=4))


def test_it_learns(make_trainer):
    trainer = make_trainer()
    trainer.start_segment(0)
    rewards = [trainer.train_epoch()["BaseEnvEvents/reward/mean"] for _ in range(6)]
    trainer.close()
    assert rewards[-1] > 3 * rewards[0]
