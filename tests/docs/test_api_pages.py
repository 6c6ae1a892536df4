"""The Python API has an entry for every public name, and the site builds without a warning."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import maze_suite

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs/api"


def entries(page):
    return re.findall(r"^\.\. auto(?:class|function|data|module):: (\S+)$", page.read_text(encoding="utf-8"), re.M)


def test_every_public_name_has_an_entry():
    assert len(maze_suite.__all__) > 20
    shown = entries(API / "suite.md")
    assert sorted(shown) == sorted(f"maze_suite.{name}" for name in maze_suite.__all__)


def test_every_contract_has_a_section():
    package = importlib.import_module("maze_kernel.contracts")
    files = {file.stem for file in Path(package.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(entries(API / "contracts.md")) == {f"maze_kernel.contracts.{name}" for name in files}


def test_every_module_shown_can_be_imported_and_every_page_is_in_the_index():
    index = (API / "index.md").read_text(encoding="utf-8")
    n_modules = 0
    for page in API.glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index
        for name in entries(page) if page.name != "suite.md" else []:
            importlib.import_module(name)
            n_modules += 1
    assert n_modules > 50


def test_options_are_shown_with_plain_defaults(tmp_path):
    """One page with the settings of the site: what attrs writes into a constructor is nothing to read."""
    settings = (API.parent / "conf.py").read_text(encoding="utf-8")
    (tmp_path / "conf.py").write_text(settings.replace('html_static_path = ["_static"]', ""), encoding="utf-8")
    modules = ("maze_runtime.training.loop_options", "maze_kernel.config.experiment")
    page = "".join(
        f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :undoc-members:\n```\n\n" for name in modules
    )
    (tmp_path / "index.md").write_text(f"# Options\n\n{page}", encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "text", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    shown = (tmp_path / "out/index.txt").read_text(encoding="utf-8")
    assert "LoopOptions(*, n_epochs=0, patience=0, max_env_steps=0, device='cpu', compile=False)" in shown
    assert "Stop after so many evaluations without a better one; 0: never." in shown
    assert "ALIASES" not in shown
    assert "attr_dict" not in shown


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_knows_every_public_name(site):
    from sphinx.util.inventory import InventoryFile

    known = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    documented = {name for kind, entries in known.items() if kind.startswith("py:") for name in entries}
    assert {f"maze_suite.{name}" for name in maze_suite.__all__} <= documented
    assert "maze_suite.RunContext.train" in documented
    assert "attr_dict" not in "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    assert "One experiment, built and run from Python" in (site / "api/suite.html").read_text(encoding="utf-8")
