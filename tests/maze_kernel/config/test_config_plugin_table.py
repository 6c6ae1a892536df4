"""`[plugins]`: require, disable and load."""

import textwrap
import warnings

import pytest

from maze_kernel.catalog import PluginRecord
from maze_kernel.config import load_experiment
from maze_kernel.errors import ExperimentError, MazeWarning
from maze_kernel.loader import Kernel


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    monkeypatch.setattr("maze_kernel.loader.find_plugins", lambda: ())


PLUGIN = """
from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent, TrainerComponent

MAZE_PLUGIN_API = 1


def make(*, size: int = 3):
    return size


@hookimpl
def maze_envs():
    yield EnvComponent(name="local", target="my_plugin:make")


@hookimpl
def maze_trainers():
    yield TrainerComponent(name="local-trainer", target="my_plugin:make")
"""

EXPERIMENT = textwrap.dedent(
    """\
    name = "local"
    [plugins]
    load = ["my_plugin.py"]
    [env]
    use = "local"
    size = 4
    [trainer]
    use = "local-trainer"
    """
)


def test_a_plugin_file_beside_the_experiment(tmp_path):
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    experiment = load_experiment(tmp_path / "e.toml").experiment
    assert experiment.env.options == {"size": 4}
    assert experiment.plugins.load == ("my_plugin.py",)


def failing(path, text, **options):
    path.write_text(text)
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path, **options)
    return caught.value.problems


def test_a_plugin_file_that_is_not_there(tmp_path):
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    path = tmp_path / "e.toml"
    problems = failing(path, EXPERIMENT.replace("my_plugin.py", "my_plugn.py"))
    assert problems[0].what == f"there is no plugin file {tmp_path / 'my_plugn.py'}"
    assert problems[0].nearest == ("my_plugin.py",)
    assert str(problems[0].location) == f"{path}:3:9"


def test_a_plugin_file_that_fails_is_the_excuse(tmp_path, capsys):
    (tmp_path / "my_plugin.py").write_text("import nowhere_at_all")
    problems = failing(tmp_path / "e.toml", EXPERIMENT)
    assert "no env is called 'local'" in problems[0].what
    assert "nowhere_at_all" in problems[0].help
    assert "nowhere_at_all" in capsys.readouterr().err


def test_a_disabled_plugin_is_named(tmp_path):
    text = EXPERIMENT.replace('load = ["my_plugin.py"]', 'load = ["my_plugin.py"]\ndisable = ["my_plugin"]')
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    problems = failing(tmp_path / "e.toml", text)
    assert "disabled" in problems[0].help
    assert "my_plugin" in problems[0].help


@pytest.mark.parametrize(("name", "hint"), [("toy_plugin", None), ("Toy-Plugin", None), ("toy_plugin2", "toy_plugin")])
def test_a_name_to_disable_that_no_plugin_has_is_warned_of(load, minimal, name, hint):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert load(f'{minimal}\n[plugins]\ndisable = ["{name}"]\n').experiment.plugins.disable == (name,)
    said = [str(warning.message) for warning in caught if warning.category is MazeWarning]
    wanted = [f"[plugins] disable names {name}, which is not installed; did you mean {hint}?"]
    assert said == (wanted if hint else [])


REQUIRED = {
    "toy_plugin": None,
    "toy-plugin >=0": None,
    "nowhere >=1": "this experiment requires nowhere, and no plugin of that name is installed",
    ">=3": '">=3" does not name a distribution',
    "a b c": '"a b c" does not name a distribution',
}


@pytest.mark.parametrize("text", REQUIRED)
def test_required_distributions(load, problems, minimal, text):
    experiment = f'{minimal}\n[plugins]\nrequire = ["{text}"]\n'
    if REQUIRED[text] is None:
        assert load(experiment).experiment.plugins.require == (text,)
        return
    (problem,) = problems(experiment)
    assert problem.what == REQUIRED[text]
    assert str(problem.location) == "experiment.toml:10:12"
    assert problem.help


RECORDS = {
    "another version": ("maze-thing >=99", "active", "requires another version of maze-thing", "maze-thing 0.1.0"),
    "failed": ("maze-thing", "failed", "requires maze-thing, which failed to load", "ImportError: no"),
    "disabled": ("Maze_Thing", "disabled", "requires Maze_Thing, which is disabled", "ImportError: no"),
}


@pytest.mark.parametrize(("require", "status", "what", "received"), RECORDS.values(), ids=RECORDS.keys())
def test_a_required_distribution_that_cannot_be_used(tmp_path, require, status, what, received):
    record = PluginRecord(
        name="thing", distribution="maze-thing", version="0.1.0", status=status, cause="ImportError: no"
    )
    text = f'name = "x"\n[plugins]\nrequire = ["{require}"]\n'
    problems = failing(tmp_path / "e.toml", text, kernel=Kernel([record]))
    problem = next(problem for problem in problems if problem.location.line == 3)
    assert problem.what == f"this experiment {what}"
    assert problem.received == received


def test_a_wrong_table_does_not_hide_the_rest(tmp_path):
    text = 'name = "x"\n[plugins]\nrequir = ["a"]\nload = "my.py"\n[env]\nuse = 3\n'
    problems = failing(tmp_path / "e.toml", text)
    assert [problem.location.line for problem in problems] == [1, 3, 4, 6]
    assert problems[1].nearest == ("require",)


def test_a_run_directory_names_no_file_to_execute(tmp_path):
    marker = tmp_path / "executed"
    (tmp_path / "my_plugin.py").write_text(f"open({str(marker)!r}, 'w')\n{PLUGIN}")
    problems = failing(tmp_path / "e.toml", EXPERIMENT, import_paths=False)
    assert problems[0].what == "plugin files are not loaded for a file inside a run directory"
    assert not marker.exists()
