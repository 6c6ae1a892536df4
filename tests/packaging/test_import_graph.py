"""Who may import whom, read from the syntax trees of every distribution."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    path
    for pattern in ("maze_*/pyproject.toml", "plugins/*/pyproject.toml", "examples/maze_hello/pyproject.toml")
    for path in ROOT.glob(pattern)
)
DISTRIBUTIONS = {path.parent.name: path.parent for path in PROJECTS}
ALGORITHMS = {"maze_ppo", "maze_sac", "maze_impala", "maze_es", "maze_bc"}
FLOORS = {
    0: ("errors", "components", "selection", "validators", "hookspecs", "__init__", "plugin_files", "containment"),
    1: ("loader", "catalog", "config", "scaffold", "builtin"),
    2: ("events",),
    3: ("env",),
    4: ("models",),
    5: ("rollout", "workers"),
    6: ("training", "run", "trajectories"),
    7: ("deployment", "api", "api_components", "rollouts", "viewing"),
    8: ("cli", "testing"),
}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
CONTRACTS = ("maze_kernel.config.experiment",)

PROCESSES = {
    *(f"workers.{name}" for name in ("actor", "child", "shared_memory", "subprocess", "supervision", "supervisor")),
    "workers.transport",
    *(f"rollout.{name}" for name in ("subprocess_vector", "subprocess_mode", "env_host", "structured_merge")),
    *(f"rollout.{name}" for name in ("remote_collector", "rollout_host")),
}
"""Modules of the kernel that others reach by the targets of components only."""


def sources(name):
    folder = DISTRIBUTIONS[name] / "src" / name
    found = [path for path in folder.rglob("*.py") if "plugin_template" not in path.parts]
    assert found, f"no source files in {folder}"
    return found


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(path):
    """Modules imported when the file runs; what stands under TYPE_CHECKING never runs."""
    pending = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if is_type_checking(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module
        pending.extend(ast.iter_child_nodes(node))


def metadata(name):
    return tomllib.loads((DISTRIBUTIONS[name] / "pyproject.toml").read_text())["project"]


def test_there_are_distributions_to_check():
    assert {"maze_kernel", "maze_ppo", "maze_perception", "maze_gym", "maze_hello"} <= set(DISTRIBUTIONS)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_first_party_imports_are_declared(name):
    declared = {
        requirement.split(">")[0].split("[")[0].strip().replace("-", "_")
        for requirement in metadata(name)["dependencies"]
    }
    for path in sources(name):
        for module in imports(path):
            package = module.partition(".")[0]
            if package in DISTRIBUTIONS and package != name:
                assert name != "maze_kernel", f"{path} imports the plugin {package}"
                assert package in declared, f"{path} imports {package}, which {name} does not declare"
                assert not {package, name} <= ALGORITHMS, f"{path}: algorithms never import each other"


def test_the_kernel_never_imports_upward():
    folder = DISTRIBUTIONS["maze_kernel"] / "src" / "maze_kernel"
    wrong = []
    for path in sources("maze_kernel"):
        room = path.relative_to(folder).parts[0].removesuffix(".py")
        for module in imports(path):
            if module.startswith("maze_kernel."):
                target = module.split(".")[1]
                if FLOOR_OF[target] > FLOOR_OF[room] and module not in CONTRACTS:
                    wrong.append(f"{path.relative_to(folder)} -> {module}")
    assert not wrong, wrong


def test_processes_are_reached_by_their_components_only():
    folder = DISTRIBUTIONS["maze_kernel"] / "src" / "maze_kernel"
    own = {folder / f"{name.replace('.', '/')}.py" for name in PROCESSES}
    assert all(path.exists() for path in own)
    wrong = [
        f"{path.relative_to(ROOT)} -> {module}"
        for name in DISTRIBUTIONS
        for path in sources(name)
        if path not in own
        for module in imports(path)
        if module.removeprefix("maze_kernel.") in PROCESSES
    ]
    assert not wrong, wrong


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_plugin_and_options_import_neither_torch_nor_gymnasium(name):
    folder = DISTRIBUTIONS[name] / "src" / name
    modules = [f"{name}.{stem}" for stem in ("plugin", "options", "builtin") if (folder / f"{stem}.py").exists()]
    if name == "maze_kernel":
        modules += [
            f"maze_kernel.{room}"
            for room in ("loader", "catalog", "workers.options", "rollout.vector_options", "config.load")
        ]
    assert modules
    code = (
        f"import sys; sys.path.insert(0, {str(folder.parent)!r})\n"
        f"import {', '.join(modules)}\n"
        "print([module for module in ('torch', 'gymnasium') if module in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_a_writer_of_statistics_needs_nothing_heavy():
    heavy = ("torch", "gymnasium", "maze_kernel.env", "maze_kernel.training", "maze_kernel.run.network_layout")
    code = (
        "import sys\nimport maze_console.logger, maze_csv.logger, maze_kernel.run.logging_contract\n"
        f"print([module for module in {heavy} if module in sys.modules])"
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
    module = "maze_kernel.builtin" if name == "maze_kernel" else f"{name}.plugin"
    assert project["entry-points"]["maze.plugins"] == {project["name"]: module}
    if name != "maze_kernel":
        assert "maze-kernel>=0.1,<0.2" in project["dependencies"]


def test_versions_are_in_step():
    from maze_kernel import __version__

    bundle = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {name: metadata(name)["version"] for name in DISTRIBUTIONS} | {"maze_rl": bundle["version"]}
    assert set(versions.values()) == {__version__}, versions
    shipped = {name.replace("_", "-") for name in DISTRIBUTIONS} - {"maze-hello"}
    assert {requirement.split(">")[0] for requirement in bundle["dependencies"]} == shipped
