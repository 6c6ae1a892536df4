"""Distributions of one release fit together, and each release says what it asks of those who upgrade."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("maze_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")])
PROJECTS = {
    data["name"]: data for data in (tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in FILES)
}
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
UPGRADING = (ROOT / "docs/upgrading.md").read_text(encoding="utf-8")


def requirements(project):
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]


def test_all_distributions_have_the_version_of_the_pages_and_of_the_changelog():
    (version,) = {project["version"] for project in PROJECTS.values()}
    conf = (ROOT / "docs/conf.py").read_text(encoding="utf-8")
    assert re.search(r'^release = version = "(.+)"$', conf, re.M)[1] == version
    assert re.search(r"^## ([\d.]+)", CHANGELOG, re.M)[1] == version


@pytest.mark.parametrize("name", PROJECTS)
def test_a_distribution_takes_those_of_its_series_and_no_others(name):
    project = PROJECTS[name]
    major, minor, _ = Version(project["version"]).release
    asked = [requirement for requirement in requirements(project) if requirement.name in PROJECTS]
    assert asked or name == "maze-kernel"
    for requirement in asked:
        for other, fits in (
            (project["version"], True),
            (f"{major}.{minor}.99", True),
            (f"{major}.{minor + 1}.0", False),
            (f"{major + 1}.0.0", False),
        ):
            assert requirement.specifier.contains(other) is fits, f"{requirement} and {other}"


def test_every_release_says_what_it_asks_of_those_who_upgrade():
    released = re.findall(r"^## ([\d.]+)", CHANGELOG, re.M)
    noted = re.findall(r"^## ([\d.]+)$", UPGRADING, re.M)
    assert released
    assert noted == released
    assert "(docs/upgrading.md)" in CHANGELOG


def test_the_page_tells_what_every_distribution_asks_for(tmp_path):
    page = runpy.run_path(str(ROOT / "docs/versions_page.py"))["versions_page"](FILES, (1, 2, 3, 4))
    assert "| 1 | 2 | 3 | 4 |" in page
    for name, project in PROJECTS.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        for text in project["dependencies"]:
            asked = Requirement(text)
            assert re.search(rf"\b{re.escape(asked.name.removeprefix('maze-'))}\b", row)
    assert re.search(r"^\| torch \| \\>=[\d.]+ \| .*maze-runtime", page, re.M)


def test_distributions_of_two_versions_are_no_release(tmp_path):
    files = []
    for number, name in enumerate(("maze-a", "maze-b")):
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(
            f'[project]\nname = "{name}"\nversion = "0.{number}.0"\nrequires-python = ">=3.11"\n'
            'dependencies = ["maze-a>=0.1,<0.2"]\n'
        )
    with pytest.raises(ValueError, match="too many values"):
        runpy.run_path(str(ROOT / "docs/versions_page.py"))["versions_page"](files, (1, 1, 1, 1))
