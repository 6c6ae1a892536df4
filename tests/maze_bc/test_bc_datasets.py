"""Which dataset an experiment learns from: the one that a table without `use` means, and those that plugins add."""

import inspect
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_kernel.cli.app import make_app
from maze_kernel.config import experiment_from_mapping, load_experiment, schema
from maze_kernel.errors import ExperimentError
from maze_kernel.hookspecs import MazeHooks

EXPERIMENT = """
name = "clone"

[env]
use = "maze_testing.environments:Identity"

[evaluation]
n_episodes = 1

[trainer]
use = "bc"
n_epochs = 1
device = "cpu"
demonstrations = { DEMONSTRATIONS }
"""


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """`experiment(demonstrations, head)` -> file."""
    monkeypatch.chdir(tmp_path)

    def write(demonstrations, head=""):
        Path("clone.toml").write_text(EXPERIMENT.replace("DEMONSTRATIONS", demonstrations) + head)
        return "clone.toml"

    return write


def test_a_path_alone_means_a_recording(experiment, kernel):
    loaded = load_experiment(experiment('path = "here"'), kernel=kernel)
    data = loaded.experiment.trainer.options.demonstrations
    assert (data.use, data.options.path) == ("trajectories", "here")
    assert loaded.resolved["trainer"]["demonstrations"] == {"use": "trajectories", "path": "here"}
    assert experiment_from_mapping(loaded.resolved, kernel=kernel).experiment == loaded.experiment


@pytest.mark.parametrize(
    ("demonstrations", "messages"),
    [
        ('pth = "here"', ["trainer.demonstrations.pth is not an option", "clone.toml:14", "path"]),
        ("path = 3", ["trainer.demonstrations.path has the wrong type", "clone.toml:14", "string"]),
        ('use = "minary", id = "x"', ["no dataset is called 'minary'", "clone.toml:14", "minari"]),
        ('use = "minari"', ["trainer.demonstrations.id is missing", "clone.toml:14"]),
    ],
)
def test_mistakes_are_shown_where_they_stand(experiment, kernel, demonstrations, messages):
    with pytest.raises(ExperimentError) as caught:
        load_experiment(experiment(demonstrations), kernel=kernel)
    shown = caught.value.render()
    assert all(message in shown for message in messages), shown


def test_a_recording_that_is_missing_is_shown_where_it_is_named(experiment):
    done = CliRunner().invoke(make_app(), ["train", experiment('path = "nowhere"')])
    assert done.exit_code == 2
    assert "there is no recording nowhere" in done.stderr
    assert "clone.toml:14" in done.stderr


def test_editors_complete_a_table_without_use(kernel):
    branches = schema(kernel)["$defs"]
    assert branches["dataset.maze-trajectories.trajectories"]["required"] == ["path"]
    assert branches["dataset.maze-trajectories.minari"]["required"] == ["use", "id"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["", '[workers]\nuse = "subprocess"\ncount = 1'])
def test_a_plugin_brings_a_dataset_of_its_own(experiment, workers):
    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(MazeHooks.maze_datasets), re.DOTALL)
    imports = "from maze_kernel import components as c, hookimpl\n\nMAZE_PLUGIN_API = 1\n"
    Path("my_plugin.py").write_text(imports + source)
    file = experiment('use = "standing", n_episodes = 4', f'[plugins]\nload = ["my_plugin.py"]\n{workers}\n')
    done = CliRunner().invoke(make_app(), ["train", file])
    assert done.exit_code == 0, done.output
    assert "done after epoch 1" in done.stdout


def test_an_import_path_will_do(experiment, monkeypatch):
    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(MazeHooks.maze_datasets), re.DOTALL)
    imports = "from maze_kernel import components as c, hookimpl\n\n"
    Path("standing_episodes.py").write_text(imports + source)
    monkeypatch.syspath_prepend(Path.cwd())
    done = CliRunner().invoke(make_app(), ["train", experiment('use = "standing_episodes:standing", n_episodes = 4')])
    assert done.exit_code == 0, done.output
    assert "done after epoch 1" in done.stdout


def test_where_two_plugins_offer_a_default_the_table_has_to_say(experiment):
    Path("other.py").write_text(
        "from maze_kernel import components as c, hookimpl\n\nMAZE_PLUGIN_API = 1\n\n\n"
        "@hookimpl\ndef maze_datasets():\n"
        '    yield c.DatasetComponent(name="other", target="other:Other", default=True)\n'
    )
    with pytest.raises(ExperimentError, match="does not say which dataset to use"):
        load_experiment(experiment('path = "here"', '[plugins]\nload = ["other.py"]\n'))
