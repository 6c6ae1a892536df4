"""A trainer may say for how many environments its defaults are meant; whatever says `n_envs` goes before it."""

import pytest
import toy_plugin
import toy_targets

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, TrainerComponent
from maze_kernel.config import experiment_from_mapping
from maze_kernel.config.experiment import VectorOptions
from maze_kernel.loader import Kernel

PRESET = {"vector": {"n_envs": 5}}


class Few:
    """A plugin with a trainer for three environments."""

    MAZE_PLUGIN_API = 1

    @hookimpl
    def maze_trainers(self):
        yield TrainerComponent(name="few", target="toy_targets:build", options="toy_options:CommonOptions", n_envs=3)

    @hookimpl
    def maze_presets(self):
        yield PresetComponent(name="five", target=f"{__name__}:PRESET")


@pytest.fixture
def n_envs():
    kernel = Kernel.of(toy_plugin, Few())

    def loaded(trainer="few", overrides=(), **data):
        data = {"name": "test", "env": {"use": "grid"}, "trainer": trainer, **data}
        return experiment_from_mapping(data, kernel=kernel, overrides=overrides).experiment.vector.n_envs

    return loaded


@pytest.mark.parametrize("trainer", ["few", {"use": "few"}])
def test_a_trainer_gives_what_nobody_said(n_envs, trainer):
    assert n_envs(trainer) == 3
    assert n_envs(trainer, vector={}) == 3


def test_others_have_the_default_of_the_table(n_envs):
    assert n_envs("toy") == n_envs("toy_targets:build") == VectorOptions().n_envs == 8
    assert n_envs(toy_targets.build) == 8


def test_whatever_says_how_many_goes_before_it(n_envs):
    assert n_envs(vector={"n_envs": 8}) == 8
    assert n_envs(vector=VectorOptions()) == 8
    assert n_envs(overrides=["vector.n_envs=2"]) == 2
    assert n_envs(preset="five") == 5


def test_an_override_may_choose_the_trainer(n_envs):
    assert n_envs({"use": "toy"}, overrides=["trainer.use=few"]) == 3


def test_it_is_one_at_least():
    with pytest.raises(ValueError, match="n_envs"):
        TrainerComponent(name="few", target="toy_targets:build", n_envs=0)
