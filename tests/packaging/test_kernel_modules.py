"""The reading of experiments and the command line: no module is long, and none needs its own user."""

import ast
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "maze_kernel" / "src" / "maze_kernel"
SINGLE = ("loader", "catalog", "components", "selection", "validators", "errors", "hookspecs", "containment")
MODULES = sorted([*KERNEL.glob("config/*.py"), *KERNEL.glob("cli/*.py"), *(KERNEL / f"{name}.py" for name in SINGLE)])
NAMES = {
    ".".join(path.relative_to(KERNEL.parent).with_suffix("").parts): path for path in MODULES if path.stem != "__init__"
}


def imported(path):
    """First-party modules that a module imports anywhere: inside functions and for the type checker, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & NAMES.keys()


def on_a_circle(name, graph):
    """Whether its imports lead back to a module."""
    seen, pending = set(), list(graph[name])
    while pending:
        other = pending.pop()
        if other not in seen:
            seen.add(other)
            pending += graph[other]
    return name in seen


def test_no_two_of_them_import_each_other_not_even_late():
    graph = {name: set(imported(path)) for name, path in NAMES.items()}
    assert sum(map(len, graph.values())) > 50
    assert not [name for name in graph if on_a_circle(name, graph)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(KERNEL)))
def test_none_has_more_than_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300
