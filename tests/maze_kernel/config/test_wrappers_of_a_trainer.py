"""A trainer may name a preset of wrappers or a model that its defaults are meant for; what is said goes before it."""

import pytest
import toy_plugin

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, TrainerComponent
from maze_kernel.config import experiment_from_mapping
from maze_kernel.config.load import select
from maze_kernel.errors import ExperimentError
from maze_kernel.loader import Kernel

SCALED = {"wrappers": [{"use": "scale", "n": 2.0}]}
OWN = {"wrappers": [{"use": "scale", "n": 3.0}]}


class Scaling:
    """A plugin with a trainer whose defaults are meant for scaled values."""

    MAZE_PLUGIN_API = 1

    @hookimpl
    def maze_trainers(self):
        target, options = "toy_targets:build", "toy_options:CommonOptions"
        yield TrainerComponent(name="scaling", target=target, options=options, preset="scaled")
        yield TrainerComponent(name="wide", target=target, options=options, preset="nine-units")
        yield TrainerComponent(name="hopeful", target=target, options=options, preset="not-installed")

    @hookimpl
    def maze_presets(self):
        yield PresetComponent(name="scaled", target=f"{__name__}:SCALED")
        yield PresetComponent(name="nine-units", target=f"{__name__}:WIDE")
        yield PresetComponent(name="own", target=f"{__name__}:OWN")
        yield PresetComponent(name="quick", target=f"{__name__}:QUICK")


QUICK = {"vector": {"n_envs": 5}}
WIDE = {"model": {"use": "net", "critic": {"use": "dense", "hidden_units": [9]}}}


@pytest.fixture
def factors():
    kernel = Kernel.of(toy_plugin, Scaling())

    def loaded(trainer="scaling", overrides=(), **data):
        data = {"name": "test", "env": {"use": "grid"}, "trainer": trainer, **data}
        loaded = experiment_from_mapping(data, kernel=kernel, overrides=overrides)
        again = experiment_from_mapping(loaded.resolved, kernel=kernel)
        assert again.resolved == loaded.resolved
        return [wrapper.option("n") for wrapper in loaded.experiment.wrappers]

    return loaded


@pytest.mark.parametrize(
    "trainer",
    [
        "scaling",
        {"use": "scaling"},
        {"use": "Scaling:scaling"},
        {"use": "scaling:scaling"},
        select(Kernel.of(toy_plugin, Scaling()), "trainer", "scaling"),
    ],
)
def test_a_trainer_gives_what_nobody_said(factors, trainer):
    assert factors(trainer) == [2.0]
    assert factors(trainer, preset="quick") == [2.0]
    assert factors({"use": "toy"}, overrides=["trainer.use=scaling"]) == [2.0]


def test_whatever_names_wrappers_goes_before_it(factors):
    assert factors(wrappers=[]) == []
    assert factors(wrappers=[{"use": "scale", "n": 7.0}]) == [7.0]
    assert factors(preset="own") == [3.0]
    assert factors(overrides=["wrappers=[]"]) == []


def test_others_have_none(factors):
    assert factors("toy") == factors("hopeful") == factors("toy_targets:build") == []


@pytest.fixture
def critic():
    kernel = Kernel.of(toy_plugin, Scaling())

    def loaded(**data):
        data = {"name": "test", "env": {"use": "grid"}, "trainer": "wide", **data}
        loaded = experiment_from_mapping(data, kernel=kernel)
        assert experiment_from_mapping(loaded.resolved, kernel=kernel).resolved == loaded.resolved
        selected = loaded.experiment.model.option("critic")
        return selected and selected.option("hidden_units")

    return loaded


def test_a_trainer_gives_a_model_and_completes_the_same_one(critic):
    assert critic() == (9,)
    assert critic(wrappers=[]) == (9,)
    assert critic(model={"use": "net", "blocks": {"position": {"use": "dense"}}}) == (9,)


def test_what_is_said_of_the_model_goes_before_it(critic):
    assert critic(model={"use": "net", "critic": {"use": "dense", "hidden_units": [3]}}) == (3,)
    assert critic(model={"use": "toy_targets:build"}) is None


def test_a_table_that_selects_nothing_is_completed(critic):
    assert critic(model={"blocks": {"position": {"use": "dense"}}}) == (9,)
    assert critic(model={"critic": {"use": "dense", "hidden_units": [3]}}) == (3,)


class Another:
    """A plugin with a preset of the same name."""

    MAZE_PLUGIN_API = 1

    @hookimpl
    def maze_presets(self):
        yield PresetComponent(name="scaled", target=f"{__name__}:OWN")
        yield PresetComponent(name="nine-units", target=f"{__name__}:WIDE")


class Strange:
    """A plugin whose trainer names a preset of others, without saying whose."""

    MAZE_PLUGIN_API = 1

    @hookimpl
    def maze_trainers(self):
        yield TrainerComponent(name="strange", target="toy_targets:build", preset="scaled")
        yield TrainerComponent(name="exact", target="toy_targets:build", preset="Another:scaled")


def test_the_preset_of_a_trainer_is_its_authors_where_others_have_the_name():
    kernel = Kernel.of(toy_plugin, Scaling(), Another(), Strange())
    factors = {
        name: [wrapper.option("n") for wrapper in load_with(kernel, name).experiment.wrappers]
        for name in ("scaling", "exact")
    }
    assert factors == {"scaling": [2.0], "exact": [3.0]}
    with pytest.raises(ExperimentError) as raised:
        load_with(kernel, "strange")
    (problem,) = raised.value.problems
    assert "preset = 'Another:scaled' or preset = 'Scaling:scaled'" in problem.help
    assert "`[plugins] disable`" in problem.help


def load_with(kernel, trainer):
    return experiment_from_mapping({"name": "test", "env": {"use": "grid"}, "trainer": trainer}, kernel=kernel)
