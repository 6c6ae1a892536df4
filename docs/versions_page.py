"""Writes the page of versions that work together, from the `pyproject.toml` files and the numbers of file formats."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = re.compile(r"^([\w.-]+)(\[[^\]]*\])?")
HEAD = """# Versions that work together

All distributions of this repository are released together and have one version, {version}. Each asks for the others
as `{series}`, so what has the same first two numbers works together, and an installer refuses the rest.
[Upgrading](../upgrading.md) says what a new version asks of you.

| Maze | Python | plugin API | run directory | checkpoint | recording |
|---|---|---|---|---|---|
| {version} | {python} | {formats} |

A plugin names its API in `MAZE_PLUGIN_API`; one that names another is left out, and `maze list-plugins` says so. The
last three are the numbers of file formats: a file of another one is refused, with the version that reads it.
"""


def versions_page(files: Iterable[Path], formats: Iterable[int]) -> str:
    """The page.

    Args:
        files: the `pyproject.toml` of everything that ships.
        formats: numbers of the plugin API and of the formats of run directories, checkpoints and recordings.
    """
    projects = [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]
    own = {project["name"] for project in projects}
    series = {text for project in projects for name, text in _needs(project["dependencies"]) if name in own}
    head = HEAD.format(
        version=_only({project["version"] for project in projects}),
        series=_only(series),
        python=_only({project["requires-python"] for project in projects}),
        formats=" | ".join(map(str, formats)),
    )
    return "\n".join([head, *_distributions(projects, own), "", *_others(projects, own), ""])


def _distributions(projects: Iterable[Mapping[str, Any]], own: set[str]) -> Iterable[str]:
    yield "## Distributions\n"
    yield "| distribution | of Maze | of others | extras |"
    yield "|---|---|---|---|"
    for project in sorted(projects, key=lambda project: project["name"]):
        needs = list(_needs(project["dependencies"]))
        ours = ", ".join(name.removeprefix("maze-") for name, _ in needs if name in own)
        others = ", ".join(f"{name} {text}".strip() for name, text in needs if name not in own)
        extras = ", ".join(f"`{name}`" for name in project.get("optional-dependencies", {}) if name != "test")
        yield f"| {project['name']} | {ours} | {_cell(others)} | {extras} |"


def _others(projects: Iterable[Mapping[str, Any]], own: set[str]) -> Iterable[str]:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for project in projects:
        extras = project.get("optional-dependencies", {})
        tables = {project["name"]: project["dependencies"]}
        tables |= {f"{project['name']}[{extra}]": needs for extra, needs in extras.items() if extra != "test"}
        for owner, needs in tables.items():
            for name, text in _needs(needs):
                if name not in own:
                    found[name][text or "any"].append(owner)
    yield "## Packages of others\n"
    yield "| package | versions | asked for by |"
    yield "|---|---|---|"
    for name in sorted(found):
        for text, owners in sorted(found[name].items()):
            yield f"| {name} | {_cell(text)} | {', '.join(sorted(owners))} |"


def _needs(requirements: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Name and accepted versions of each requirement; extras are left out."""
    for requirement in requirements:
        match = NAME.match(requirement)
        assert match is not None, requirement
        yield match[1], requirement[match.end() :].strip()


def _cell(text: str) -> str:
    return re.sub(r"([|<>*_])", r"\\\1", text)


def _only(values: set[str]) -> str:
    (value,) = values
    return value
