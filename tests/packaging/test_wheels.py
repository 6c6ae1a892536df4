"""Each wheel installs alone beside the kernel's, and the example plugin trains from wheels."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(
    path.parent.name
    for pattern in ("maze_*/pyproject.toml", "plugins/*/pyproject.toml", "examples/maze_hello/pyproject.toml")
    for path in ROOT.glob(pattern)
)
LIST = (
    "import json, maze_kernel\n"
    "from maze_kernel.loader import Kernel\n"
    "kernel = Kernel.installed()\n"
    "print(json.dumps({'file': maze_kernel.__file__, 'plugins':"
    " {p.name: [p.status, p.cause, len(p.components)] for p in kernel.plugins}}))"
)

pytestmark = pytest.mark.slow


def run(*command, cwd):
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_it_installs_alone_beside_the_kernel(name, wheels, clean_environment, tmp_path):
    alone = {"maze_kernel": wheels["maze_kernel"], name: wheels[name]}
    python = clean_environment(*alone.values())
    found = json.loads(run(python, "-c", LIST, cwd=tmp_path))
    assert Path(found["file"]).is_relative_to(tmp_path), "the kernel must come from its wheel"
    assert set(found["plugins"]) == {package.replace("_", "-") for package in alone}
    for plugin, (status, cause, n_components) in found["plugins"].items():
        assert status == "active", f"{plugin}: {cause}"
        assert n_components > 0


@pytest.mark.parametrize("name", NAMES)
def test_wheels_are_typed_and_hold_no_tests(name, wheels):
    with zipfile.ZipFile(wheels[name]) as wheel:
        files = wheel.namelist()
    assert f"{name}/py.typed" in files
    assert not [file for file in files if "__pycache__" in file or file.startswith("tests/")]


def test_the_kernels_wheel_starts_new_plugins(wheels, clean_environment, tmp_path):
    python = clean_environment(wheels["maze_kernel"])
    code = "from maze_kernel.scaffold import new_plugin; new_plugin('maze-robots', '.')"
    run(python, "-c", code, cwd=tmp_path)
    made = {path.relative_to(tmp_path / "maze_robots") for path in (tmp_path / "maze_robots").rglob("*.*")}
    assert Path("src/maze_robots/plugin.py") in made
    assert Path("pyproject.toml") in made


def test_the_example_plugin_trains_from_wheels(wheels, clean_environment, tmp_path):
    python = clean_environment(*wheels.values())
    maze = python.parent / "maze"
    experiment = ROOT / "examples" / "maze_hello" / "experiment.toml"
    out = tmp_path / "run"
    run(maze, "train", experiment, "--set", "trainer.n_epochs=2", "--out", out, cwd=tmp_path)
    assert [*out.rglob("model.safetensors")]


def test_a_new_plugin_passes_its_own_tests(wheels, clean_environment, tmp_path):
    from maze_kernel.scaffold import new_plugin

    folder = new_plugin("acme-robots", tmp_path)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", folder, cwd=tmp_path)
    python = clean_environment(*wheels.values(), next(folder.glob("dist/*.whl")))
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "tests", cwd=tmp_path)
    described = run(python.parent / "maze", "describe", "trainer", "acme-robots-search", cwd=tmp_path)
    assert "elite_fraction" in described
