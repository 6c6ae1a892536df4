"""Who may import whom, read from the syntax trees and the metadata of every distribution.

A package may import what its `pyproject.toml` names and nothing else; imports inside functions and under
`TYPE_CHECKING` count like all others. No import runs in a circle.
"""

import ast
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    path
    for pattern in ("maze_*", "plugins/*", "examples/maze_hello", "tests/third_party/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
DISTRIBUTIONS = {path.parent.name: path.parent for path in PROJECTS}
LIBRARIES = {"maze_replay", "maze_testing", "maze_suite"}
"""Distributions that offer no component."""
ALGORITHMS = {"maze_ppo", "maze_dqn", "maze_td3", "maze_sac", "maze_impala", "maze_es", "maze_bc"}
IMPORTED_AS = {"PIL": "pillow", "imageio_ffmpeg": "imageio-ffmpeg", "mlflow": "mlflow-skinny"}
"""Third-party modules whose distribution has another name."""
RLLIB_NEEDS = {"dm_tree", "lz4", "ormsgpack", "pyyaml", "scipy"}
"""What RLlib imports; the extra of Ray that names it pins one release of Gymnasium."""
ROOMS = (
    *("events", "env", "models", "native", "workers", "rollout", "run", "datasets", "training", "series"),
    *("playing", "context", "commands", "plugin"),
)
"""The floors of maze_runtime from the ground; an import never runs upward."""
KERNEL_LINES = 7000
MODULE_LINES = 300


def metadata(name):
    return tomllib.loads((DISTRIBUTIONS[name] / "pyproject.toml").read_text())["project"]


def declared(name):
    """The distributions a package may import: its dependencies, and those of its extras but `test`."""
    project = metadata(name)
    optional = project.get("optional-dependencies", {})
    extras = [text for extra, texts in optional.items() if extra != "test" for text in texts]
    return {Requirement(text).name.lower().replace("-", "_") for text in (*project.get("dependencies", ()), *extras)}


def sources(name):
    folder = DISTRIBUTIONS[name] / "src" / name
    return [path for path in folder.rglob("*.py") if "plugin_template" not in path.parts]


@cache
def modules():
    """Module name to its file, of all distributions."""
    found = {}
    for name, folder in DISTRIBUTIONS.items():
        for path in sources(name):
            parts = path.relative_to(folder / "src").with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(path):
    """All modules that a file imports, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules() else node.module for name in names}
    return found


def test_there_are_distributions_to_check():
    assert {"maze_kernel", "maze_runtime", "maze_ppo", "maze_gym", "maze_suite", "maze_hello"} <= set(DISTRIBUTIONS)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_package_imports_what_it_declares(name):
    allowed = {name} | declared(name)
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(name)
        for module in imports(path)
        if (top := module.partition(".")[0]) not in sys.stdlib_module_names
        and IMPORTED_AS.get(top, top).lower().replace("-", "_") not in allowed
    }
    assert not wrong


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_package_declares_what_it_imports(name):
    """A dependency nobody imports is one too many; those of extras may be the business of a library."""
    used = {IMPORTED_AS.get(m.partition(".")[0], m.partition(".")[0]).lower().replace("-", "_")
            for path in sources(name) for m in imports(path)}  # fmt: skip
    dependencies = {Requirement(text).name.lower().replace("-", "_") for text in metadata(name).get("dependencies", ())}
    if name != "maze_suite":
        assert not dependencies - used - {"maze_kernel", "tensorboard", "gymnasium", "pettingzoo"} - RLLIB_NEEDS


def test_the_kernel_knows_neither_torch_nor_any_plugin():
    assert not {"torch", "safetensors"} & {Requirement(text).name for text in metadata("maze_kernel")["dependencies"]}
    assert not declared("maze_kernel") & set(DISTRIBUTIONS)


def test_algorithms_never_import_each_other():
    for name in ALGORITHMS:
        assert not declared(name) & (ALGORITHMS - {name})


def test_no_import_runs_in_a_circle():
    graph = {name: {target for target in imports(path) if target in modules()} - {name} for name, path in
             modules().items()}  # fmt: skip
    assert len(graph) > 200
    while leaves := [name for name, targets in graph.items() if not targets & set(graph)]:
        for name in leaves:
            del graph[name]
    circle = {name: sorted(targets & set(graph)) for name, targets in graph.items()}
    assert not circle


def test_the_runtime_never_imports_upward():
    wrong = []
    for path in sources("maze_runtime"):
        room = path.relative_to(DISTRIBUTIONS["maze_runtime"] / "src" / "maze_runtime").parts[0].removesuffix(".py")
        for module in imports(path):
            parts = module.split(".")
            if parts[0] == "maze_runtime" and len(parts) > 1 and _floor(parts[1]) > _floor(room):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def _floor(room):
    return ROOMS.index("context" if room.startswith("context_") else room) if room != "__init__" else -1


def test_the_kernel_stays_small():
    lines = {path: len(path.read_text().splitlines()) for path in sources("maze_kernel")}
    assert sum(lines.values()) <= KERNEL_LINES
    assert {path.name: n for path, n in lines.items() if n > MODULE_LINES} == {}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_plugin_and_options_import_neither_torch_nor_gymnasium(name):
    folder = DISTRIBUTIONS[name] / "src" / name
    found = [f"{name}.{stem}" for stem in ("plugin", "options", "builtin") if (folder / f"{stem}.py").exists()]
    if name == "maze_kernel":
        found += [f"maze_kernel.{room}" for room in ("loader", "catalog", "config.load", "contracts.logger", "cli.app")]
    found = found or [name]
    code = (
        f"import sys; sys.path.insert(0, {str(folder.parent)!r})\n"
        f"import {', '.join(found)}\n"
        "print([module for module in ('torch', 'gymnasium') if module in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_is_typed_and_has_its_entry_point(name):
    folder = DISTRIBUTIONS[name]
    project = metadata(name)
    assert (folder / "src" / name / "py.typed").exists()
    assert (folder / "README.md").read_text().startswith("#")
    assert project["name"] == name.replace("_", "-")
    if name in LIBRARIES:
        assert "entry-points" not in project
        return
    module = "maze_kernel.builtin" if name == "maze_kernel" else f"{name}.plugin"
    assert project["entry-points"]["maze.plugins"] == {project["name"]: module}
    if name != "maze_kernel":
        assert "maze-kernel>=0.1,<0.2" in project["dependencies"]


def test_versions_are_in_step():
    from maze_kernel import __version__

    assert {name: metadata(name)["version"] for name in DISTRIBUTIONS} == dict.fromkeys(DISTRIBUTIONS, __version__)
    shipped = {name.replace("_", "-") for name in DISTRIBUTIONS} - {"maze-hello", "maze-acme", "maze-suite"}
    bundle = metadata("maze_suite")
    texts = [*bundle["dependencies"], *(text for own in bundle["optional-dependencies"].values() for text in own)]
    assert {Requirement(text).name for text in texts} == shipped
