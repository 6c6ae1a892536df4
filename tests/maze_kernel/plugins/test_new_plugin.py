"""`maze new-plugin`: the example under a new name."""

import ast
import tomllib
from pathlib import Path

import pytest

from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel, find_file
from maze_kernel.scaffold import TEMPLATE, new_plugin

EXAMPLE = Path(__file__).parents[3] / "examples" / "maze_hello"


def sources(folder):
    """Path below the folder to text, of all that is no by-product of building or running."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in paths if not {"__pycache__", "dist"} & set(path.parts))
    return {str(path.relative_to(folder)): path.read_text() for path in kept}


def test_the_template_is_the_example():
    """In the repository it is a link to the example; in a wheel it is a copy."""
    example = sources(EXAMPLE)
    assert "src/maze_hello/plugin.py" in example
    assert sources(TEMPLATE) == example


@pytest.mark.parametrize(("name", "short"), [("maze-robots", "robots"), ("acme-two-arms", "acme-two-arms")])
def test_names_are_replaced_everywhere(name, short, tmp_path):
    folder = new_plugin(name, tmp_path)
    package = name.replace("-", "_")
    assert folder == tmp_path / package
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == name
    assert project["entry-points"]["maze.plugins"] == {name: f"{package}.plugin"}
    for path in folder.rglob("*"):
        assert "hello" not in path.name.lower()
        if path.is_file():
            assert "hello" not in path.read_text().lower(), path
        if path.suffix == ".py":
            ast.parse(path.read_text())
    kernel = Kernel.installed(load=[find_file(folder / "src" / package / "plugin.py").value])
    assert {component.name for component in kernel.plugins[-1].components} == {
        f"{short}-clip",
        f"{short}-residual",
        f"{short}-search",
    }


@pytest.mark.parametrize("name", ["Robots", "my_plugin", "", "../up", "class", "json", "maze-kernel", "-x"])
def test_names_that_cannot_work_are_refused(name, tmp_path):
    with pytest.raises(RequestError):
        new_plugin(name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["numpy", "maze-kernel", "typing-extensions", "pil-image"])
def test_names_of_what_is_installed_are_refused(name, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/pil_image.py").touch()  # belongs to no distribution
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(RequestError, match="something that is installed, has that name"):
        new_plugin(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_plugin_that_was_installed_from_this_folder_can_be_started_anew(tmp_path, monkeypatch):
    info = tmp_path / "site/maze_robots-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: maze-robots\nVersion: 0.1\n")
    (info / "direct_url.json").write_text(f'{{"url": "{(tmp_path / "maze_robots").as_uri()}"}}')
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(RequestError, match="has that name"):
        new_plugin("maze-robots", tmp_path / "elsewhere")
    assert new_plugin("maze-robots", tmp_path).is_dir()


def test_nothing_is_overwritten(tmp_path):
    new_plugin("maze-robots", tmp_path)
    with pytest.raises(RequestError, match="exists already"):
        new_plugin("maze-robots", tmp_path)
