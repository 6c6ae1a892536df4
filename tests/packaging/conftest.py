"""Wheels of all distributions, and clean environments that hold wheels and third-party packages only."""

import importlib.metadata
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, cwd, **options):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result


def build(folder, out):
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, folder, cwd=out)
    return next(out.glob(f"{folder.name}-*.whl"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """Package name to its wheel."""
    out = tmp_path_factory.mktemp("wheels")
    folders = [*ROOT.glob("maze_*"), *ROOT.glob("plugins/*"), ROOT / "examples" / "maze_hello"]
    return {folder.name: build(folder, out) for folder in folders if (folder / "pyproject.toml").exists()}


@pytest.fixture
def clean_environment(tmp_path):
    """`make(*wheels)` installs them into a new environment and returns its Python.

    Third-party packages are lent by the running interpreter through a folder of links, so that first-party
    distributions can come from the wheels only.
    """

    def make(*wheels):
        folder = tmp_path / "environment"
        venv.create(folder, with_pip=False, symlinks=True)
        python = folder / "bin" / "python"
        lent = tmp_path / "third_party"
        lent.mkdir()
        _lend(lent)
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "third_party.pth").write_text(f"{lent}\n")
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", *wheels, cwd=tmp_path)
        return python

    return make


def _lend(lent):
    for folder in {Path(str(dist.locate_file(""))) for dist in importlib.metadata.distributions()}:
        if not folder.is_dir():
            continue
        for item in folder.iterdir():
            first_party = item.name.replace("-", "_").startswith(("maze_", "__editable__", "_maze"))
            if not first_party and item.suffix != ".pth" and not (lent / item.name).is_symlink():
                (lent / item.name).symlink_to(item)
