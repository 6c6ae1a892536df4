"""Wheels of all distributions, and environments that hold some of them and what their metadata declares."""

import importlib.metadata
import os
import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    others = [ROOT / "examples" / "maze_hello", *ROOT.glob("tests/third_party/*")]
    folders = [*ROOT.glob("maze_*"), *ROOT.glob("plugins/*"), *others]
    return {folder.name: build(folder, out) for folder in folders if (folder / "pyproject.toml").exists()}


@pytest.fixture
def clean_environment(wheels, tmp_path):
    """`make("maze_csv", ...)` gives the Python of a new environment that holds these distributions and what they need.

    First-party distributions come from their wheels: those that are named, and those that these declare. Third-party
    packages are lent by the running interpreter, and only those that are declared, directly or by one another.

    Args of `make`:
        names: packages of this repository, or paths of further wheels.
        extras: package to the extras it is installed with.
        also: third-party distributions besides, e.g. pytest.
    """

    def make(*names, extras=None, also=()):
        extras = extras or {}
        folder = tmp_path / "environment"
        venv.create(folder, with_pip=False, symlinks=True)
        python = folder / "bin" / "python"
        first_party, third_party = _closure(wheels, names, extras, also)
        lent = tmp_path / "third_party"
        lent.mkdir()
        _lend(third_party, lent)
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "third_party.pth").write_text(f"{lent}\n")
        run(sys.executable, "-m", "pip", "--python", python, *_PIP, *first_party, cwd=tmp_path)
        return python

    return make


_PIP = ("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")


def _closure(wheels, names, extras, also):
    """Wheels of this repository, and names of third-party distributions, that the named packages need together."""
    own = {canonicalize_name(name): wheel for name, wheel in wheels.items()}
    own |= {canonicalize_name(Path(name).name.split("-")[0]): name for name in names if str(name).endswith(".whl")}
    pending = [
        (canonicalize_name(Path(name).name.split("-")[0]), frozenset(extras.get(str(name), ()))) for name in names
    ]
    pending += [(canonicalize_name(name), frozenset()) for name in also]
    seen = set()
    while pending:
        name, wanted = pending.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        for text in _requirements(own.get(name), name):
            requirement = Requirement(text)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (*wanted, "")
            ):
                pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    found = {name for name, _ in seen}
    return [own[name] for name in sorted(found & set(own))], sorted(found - set(own))


def _requirements(wheel, name):
    if wheel is None:
        try:
            return importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            return []  # declared for another platform, or optional
    with zipfile.ZipFile(wheel) as files:
        metadata = next(file for file in files.namelist() if file.endswith(".dist-info/METADATA"))
        return Parser().parsestr(files.read(metadata).decode()).get_all("Requires-Dist") or []


def _lend(names, folder):
    """Links to the files of installed distributions."""
    for name in names:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        tops = {file.parts[0] for file in distribution.files or () if ".." not in file.parts}
        for top in tops - {"__pycache__"}:
            source, link = Path(str(distribution.locate_file(top))), folder / top
            if not link.is_symlink():
                link.symlink_to(source)
