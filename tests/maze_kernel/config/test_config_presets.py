"""Presets lie beneath what a file says; their mistakes are told with their name and owner."""

import json
import sys
import types

import jsonschema
import pytest
import tomli
import toy_plugin

from maze_kernel import hookimpl
from maze_kernel.cli.app import make_app
from maze_kernel.components import PresetComponent
from maze_kernel.config import experiment_from_mapping, load_experiment, schema
from maze_kernel.loader import Kernel

TABLES = {
    "QUICK": {"trainer": {"use": "toy", "n_epochs": 3, "gamma": 0.5}, "vector": {"n_envs": 2}},
    "SCALED": {"wrappers": [{"use": "scale", "n": 2.0}], "vector": {"n_envs": 4}, "trainer": {"use": "toy-two"}},
    "WRONG": {"vector": {"n_envs": "many"}, "trainer": {"use": "toy", "gama": 0.5}},
    "NO_TABLE": 3,
}
HEAD = 'name = "test"\n[env]\nuse = "grid"\n'


@pytest.fixture
def kernel(monkeypatch, tmp_path_factory):
    module = types.ModuleType("preset_plugin")
    folder = tmp_path_factory.mktemp("packages")
    (folder / "preset_package").mkdir()
    (folder / "preset_package" / "__init__.py").write_text("")
    (folder / "preset_package" / "from_file.toml").write_text("[trainer]\nuse = 'toy'\nn_epochs = 9\n")
    (folder / "preset_package" / "broken.toml").write_text("[trainer\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, "preset_plugin", module)

    @hookimpl
    def maze_presets():
        for name in TABLES:
            yield PresetComponent(
                name=name.lower().replace("_", "-"), target=f"preset_plugin:{name}", summary="A test."
            )
        for name in ("from_file", "broken", "nowhere"):
            yield PresetComponent(name=name.replace("_", "-"), target=f"preset_package:{name}.toml")

    module.__dict__.update(TABLES, MAZE_PLUGIN_API=1, maze_presets=maze_presets)
    return Kernel.of(toy_plugin, module)


def trainer(loaded):
    return loaded.resolved["trainer"]


def test_a_preset_gives_what_the_file_leaves_open(load):
    loaded = load(f'preset = "quick"\n{HEAD}')
    assert (trainer(loaded)["use"], trainer(loaded)["n_epochs"], trainer(loaded)["gamma"]) == ("toy", 3, 0.5)
    assert loaded.experiment.vector.n_envs == 2
    assert TABLES["QUICK"]["trainer"] == {"use": "toy", "n_epochs": 3, "gamma": 0.5}  # not changed in place


def test_what_the_file_says_wins(load):
    loaded = load(f'preset = "quick"\n{HEAD}[vector]\nn_envs = 7\n[trainer]\nuse = "toy"\ngamma = 0.25\n')
    assert (trainer(loaded)["n_epochs"], trainer(loaded)["gamma"]) == (3, 0.25)
    assert loaded.experiment.vector.n_envs == 7


@pytest.mark.parametrize("use", ["toy", "toy_plugin:toy", "toy-plugin:toy", "Toy-Plugin:toy"])
def test_a_table_is_completed_however_it_spells_the_component(load, use):
    loaded = load(f'preset = "quick"\n{HEAD}[trainer]\nuse = "{use}"\ngamma = 0.25\n')
    assert (trainer(loaded)["n_epochs"], trainer(loaded)["gamma"]) == (3, 0.25)


def test_another_component_of_the_file_keeps_nothing_of_the_presets(load):
    loaded = load(f'preset = "quick"\n{HEAD}[trainer]\nuse = "toy-two"\n')
    assert trainer(loaded)["use"] == "toy-two"
    assert "gamma" not in trainer(loaded)


def test_of_several_presets_the_later_one_wins_and_lists_are_whole(load):
    loaded = load(f'preset = ["quick", "scaled"]\n{HEAD}')
    assert trainer(loaded)["use"] == "toy-two"
    assert loaded.experiment.vector.n_envs == 4
    assert [wrapper.use for wrapper in loaded.experiment.wrappers] == ["scale"]
    assert load(f'preset = ["scaled", "quick"]\n{HEAD}').experiment.vector.n_envs == 2
    own = load(f'preset = "scaled"\n{HEAD}[[wrappers]]\nuse = "plain-wrapper"\nstrength = 1.0\n')
    assert [wrapper.use for wrapper in own.experiment.wrappers] == ["plain-wrapper"]


def test_overrides_choose_a_preset_and_change_its_values(load):
    loaded = load(HEAD, "preset=scaled", "wrappers.0.n=5.0", "vector.n_envs=3")
    assert loaded.experiment.wrappers[0].option("n") == 5.0
    assert loaded.experiment.vector.n_envs == 3


@pytest.mark.parametrize("preset", ['"quick"', '["from-file", "quick"]'])
def test_another_component_of_an_override_keeps_nothing_of_the_presets_either(load, preset):
    loaded = load(f"preset = {preset}\n{HEAD}", "trainer.use=toy-two", "trainer.n_epochs=4")
    assert trainer(loaded) == trainer(load(f'{HEAD}[trainer]\nuse = "toy-two"\nn_epochs = 4\n'))
    assert loaded.experiment.vector.n_envs == 2
    spelt = load(f"preset = {preset}\n{HEAD}", "trainer.use=toy-plugin:toy", "trainer.lr=1.0")
    assert (trainer(spelt)["n_epochs"], trainer(spelt)["gamma"], trainer(spelt)["lr"]) == (3, 0.5, 1.0)
    chosen = load(f"preset = {preset}\n{HEAD}[trainer]\nuse = 'toy-two'\n", "trainer.use=toy")
    assert (trainer(chosen)["n_epochs"], trainer(chosen)["gamma"]) == (3, 0.5)


def test_a_preset_may_be_a_file_of_a_package(load):
    assert trainer(load(f'preset = "from-file"\n{HEAD}'))["n_epochs"] == 9


def test_what_is_stored_holds_the_values_and_no_preset(load, kernel):
    loaded = load(f'preset = ["quick", "scaled"]\n{HEAD}')
    assert "preset" not in loaded.resolved
    assert loaded.experiment.preset == ("quick", "scaled")
    again = experiment_from_mapping(loaded.resolved, kernel=kernel)
    assert again.experiment == loaded.experiment


def test_mistakes_of_a_preset_name_it_and_its_owner(problems):
    wrong, unknown = problems(f'preset = "wrong"\n{HEAD}')
    assert unknown.what == 'trainer.gama is not an option of trainer "toy"'
    assert wrong.what == "vector.n_envs has the wrong type"
    for problem in (wrong, unknown):
        assert problem.owner == problem.location.file == 'preset "wrong" of preset_plugin'


def test_mistakes_beside_a_preset_stay_the_users(problems):
    (mine,) = problems(f'preset = "quick"\n{HEAD}[trainer]\nuse = "toy"\ngama = 0.5\n')
    assert (mine.location.file, mine.location.line) == ("experiment.toml", 7)
    (typed,) = problems(f'preset = "quick"\n{HEAD}', "trainer.gamma=often")
    assert typed.location.file == "command line"
    assert "preset" not in typed.owner


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"quik"', "no preset is called 'quik'"),
        ('["quick", "no"]', "no preset is called 'no'"),
        ('"broken"', "preset_plugin:broken cannot be read"),
        ('"nowhere"', "preset_plugin:nowhere cannot be read"),
        ("3", "no preset is called '3'"),
        ('"no-table"', "preset_plugin:no-table cannot be read"),
    ],
)
def test_a_preset_that_cannot_be_had_is_refused_at_its_line(problems, written, said):
    found = [problem for problem in problems(f"preset = {written}\n{HEAD}") if said in problem.what]
    assert len(found) == 1
    assert found[0].location.line == 1
    assert "no preset" not in said or "`maze list-presets`" in found[0].help


def test_the_schema_asks_for_no_trainer_where_a_preset_is_named(kernel, minimal):
    made = jsonschema.Draft202012Validator(schema(kernel))
    bare = tomli.loads(HEAD)
    assert not made.is_valid(bare)
    assert made.is_valid({**bare, "preset": "quick"})
    assert made.is_valid({**bare, "preset": ["quick", "scaled"]})
    assert not made.is_valid({**bare, "preset": 3})
    assert made.is_valid(tomli.loads(minimal))


def test_describe_prints_a_preset_in_full(kernel, monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.setattr(Kernel, "installed", classmethod(lambda _cls, **_options: kernel))
    own = Kernel.of(__import__("maze_kernel.builtin", fromlist=["builtin"]))
    done = CliRunner().invoke(make_app(own), ["describe", "preset", "quick"])
    assert done.exit_code == 0, done.output
    assert tomli.loads(done.stdout) == TABLES["QUICK"]
    listed = CliRunner().invoke(make_app(own), ["describe", "preset", "--json"])
    assert {"name": "quick", "plugin": "preset_plugin", "summary": "A test."} in json.loads(listed.stdout)


def test_a_file_of_a_run_names_presets_too(tmp_path, kernel):
    (tmp_path / "experiment.toml").write_text(f'preset = "quick"\n{HEAD}')
    loaded = load_experiment(tmp_path / "experiment.toml", kernel=kernel, import_paths=False)
    assert loaded.experiment.vector.n_envs == 2
