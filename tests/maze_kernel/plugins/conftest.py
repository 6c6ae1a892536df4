"""Throw-away distributions: an entry point and a module on a path of their own."""

import sys
import textwrap

import pytest

GOOD = """
from maze_kernel import hookimpl
from maze_kernel.components import WrapperComponent

MAZE_PLUGIN_API = 1

@hookimpl
def maze_wrappers():
    yield WrapperComponent(name="{name}", target="{module}:Wrapper")

class Wrapper:
    pass
"""


@pytest.fixture
def distributions(tmp_path, monkeypatch):
    """`add(name, source)` installs a distribution that registers the module `name` with that source."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    modules = []

    def add(name, source=None, *, version="1.0", component=None):
        module = name.replace("-", "_")
        text = GOOD.format(name=component or name, module=module) if source is None else textwrap.dedent(source)
        (folder / f"{module}.py").write_text(text)
        info = folder / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[maze.plugins]\n{name} = {module}\n")
        modules.append(module)

    yield add
    for module in modules:
        sys.modules.pop(module, None)
