"""`[plugins] load`: Python files as plugins, here and in worker processes."""

import multiprocessing
import pickle
import re
import shlex
import sys

import pytest

from maze_kernel.components import load_attribute
from maze_kernel.config.load import select
from maze_kernel.config.resolved import plain
from maze_kernel.errors import MazeError, PluginError
from maze_kernel.loader import Kernel

SOURCE = """
import attrs
from maze_kernel import hookimpl
from maze_kernel.components import WrapperComponent

MAZE_PLUGIN_API = 1

@attrs.frozen(kw_only=True)
class Options:
    factor: float = {factor}

class Wrapper:
    factor = {factor}

@hookimpl
def maze_wrappers():
    yield WrapperComponent(name="mine", target="my_wrappers:Wrapper", options="my_wrappers:Options")
    yield WrapperComponent(name="mine-too", target=f"{{__name__}}:Wrapper")
"""


ENVIRONMENTS = """
from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent

MAZE_PLUGIN_API = 1

@hookimpl
def maze_envs():
    yield EnvComponent(
        name="home",
        target="my_envs:build",
        options="my_envs:Options",
        vector_target="my_envs:build_many",
        adapts="my_envs:adapted",
    )

class Options: ...
def build(): ...
def build_many(): ...
def adapted(): ...
"""


def write(folder, factor):
    folder.mkdir(exist_ok=True)
    (folder / "my_wrappers.py").write_text(SOURCE.format(factor=factor))
    return folder / "my_wrappers.py"


def mine(kernel):
    return kernel.catalog.find("wrapper", "my_wrappers:mine")


def test_its_components_are_found_and_its_targets_resolve(tmp_path):
    kernel = Kernel.installed(load=[write(tmp_path, 2.0)])
    assert load_attribute(mine(kernel).component.target).factor == 2.0
    assert kernel.catalog.options_class(mine(kernel))().factor == 2.0
    assert load_attribute(kernel.catalog.find("wrapper", "mine-too").component.target).factor == 2.0
    assert kernel.plugins[-1].status == "active"


def test_every_target_of_a_record_may_name_the_file_by_its_stem(tmp_path):
    file = tmp_path / "my_envs.py"
    file.write_text(ENVIRONMENTS)
    component = Kernel.installed(load=[file]).catalog.find("env", "my_envs:home").component
    named = [component.target, component.options, component.vector_target, component.adapts]
    assert [load_attribute(target).__name__ for target in named] == ["build", "Options", "build_many", "adapted"]


def test_a_file_whose_stem_is_no_identifier_says_its_name(tmp_path):
    file = tmp_path / "my-envs.py"
    file.write_text(ENVIRONMENTS.replace("my_envs:", "my-envs:"))
    (cause,) = [
        plugin.cause for plugin in Kernel.installed(load=[file], report=False).plugins if plugin.name == "my-envs"
    ]
    assert "'my-envs:build' is not 'package.module:attribute'; in a plugin file of any name f'{__name__}:" in cause
    file = tmp_path / "our-envs.py"
    file.write_text(ENVIRONMENTS.replace('"my_envs:', 'f"{__name__}:'))
    entry = Kernel.installed(load=[file]).catalog.find("env", "our-envs:home")
    assert load_attribute(entry.component.target).__name__ == "build"


def test_two_files_of_one_name_stay_apart_and_no_path_is_added(tmp_path):
    path = list(sys.path)
    one = Kernel.installed(load=[write(tmp_path / "one", 1.0)])
    two = Kernel.installed(load=[write(tmp_path / "two", 2.0)])
    assert [load_attribute(mine(kernel).component.target).factor for kernel in (one, two)] == [1.0, 2.0]
    assert sys.path == path


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_process_resolves_the_target_and_unpickles_the_class(tmp_path, method):
    target = mine(Kernel.installed(load=[write(tmp_path, 3.0)])).component.target
    shipped = load_attribute(target)
    assert pickle.loads(pickle.dumps(shipped)) is shipped
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(load_attribute, (target,)).factor == 3.0
        assert pool.apply(getattr, (shipped, "factor")) == 3.0


LATE = """
from __future__ import annotations
from typing import TYPE_CHECKING
import attrs
from maze_kernel import hookimpl
from maze_kernel.components import WrapperComponent
if TYPE_CHECKING:
    from collections.abc import Sequence

MAZE_PLUGIN_API = 1

@attrs.frozen(kw_only=True)
class Options:
    factors: Sequence[float] = (0.5, 1.0)

@hookimpl
def maze_wrappers():
    yield WrapperComponent(name="late", target="late:Options", options="late:Options")
"""


def test_options_whose_annotations_mean_nothing_at_run_time_are_written_out(tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    kernel = Kernel.installed(load=[tmp_path / "late.py"], report=False)
    assert plain(select(kernel, "wrapper", {"use": "late"})) == {"use": "late", "factors": [0.5, 1.0]}


def test_an_options_class_of_a_file_is_called_by_the_files_stem(tmp_path):
    (tmp_path / "late.py").write_text(LATE.replace("@attrs.frozen(kw_only=True)", ""))
    kernel = Kernel.installed(load=[tmp_path / "late.py"], report=False)
    with pytest.raises(MazeError, match="the options class 'late:Options' is no class of attrs"):
        select(kernel, "wrapper", {"use": "late"})


def test_a_file_that_is_missing_or_broken_is_contained(tmp_path, capfd):
    (tmp_path / "bad.py").write_text("import nothing_at_all")
    kernel = Kernel.installed(load=[tmp_path / "absent.py", tmp_path / "bad.py"])
    absent, bad = kernel.plugins[-2:]
    assert "no such file" in absent.cause
    assert "nothing_at_all" in bad.cause
    assert str(tmp_path / "bad.py") in capfd.readouterr().err
    with pytest.raises(PluginError, match="plugin bad failed to load"):
        kernel.catalog.find("env", "bad:thing")


def test_the_help_of_a_wrong_option_names_a_command_that_shows_the_options(tmp_path, maze):
    """`maze describe` has to be told of the file, and of the folder of a module that is no plugin."""
    write(tmp_path / "a folder", 4.0)
    experiment = tmp_path / "a folder" / "experiment.toml"
    experiment.write_text(
        'name = "x"\n[plugins]\nload = ["my_wrappers.py"]\n[env]\nuse = "a:b"\n[trainer]\nuse = "a:b"\n'
        '[[wrappers]]\nuse = "mine"\nfacter = 3\n'
    )
    done = maze("check", str(experiment))
    (command,) = re.findall(r"help: maze (describe wrapper mine .*) lists the options", done.stderr)
    shown = maze(*shlex.split(command))
    assert shown.exit_code == 0, shown.stderr
    assert "factor" in shown.stdout
    assert "4.0" in shown.stdout


def test_a_file_that_imports_its_neighbour_is_described(tmp_path, maze, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_mine.py").write_text("FACTOR = 0.5\n")
    source = SOURCE.replace("import attrs", "import attrs, neighbour_of_mine", 1).format(factor=0.5)
    (tmp_path / "my_wrappers.py").write_text(source)
    done = maze("describe", "wrapper", "mine", "--load", str(tmp_path / "my_wrappers.py"))
    assert done.exit_code == 0, done.stderr
    assert "factor" in done.stdout


def test_a_class_in_the_working_directory_is_described(tmp_path, maze, monkeypatch):
    (tmp_path / "beside_the_file.py").write_text("class Thing:\n    def __init__(self, env, *, width: int = 7): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shown = maze("describe", "wrapper", "beside_the_file:Thing")
    assert shown.exit_code == 0, shown.stderr
    assert "width" in shown.stdout
