"""What few wheels can do: the kernel alone, with a writer, with an algorithm; examples; new plugins."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(
    path.parent.name
    for pattern in ("maze_*", "plugins/*", "examples/maze_hello", "tests/third_party/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
LIBRARIES = ("maze_replay", "maze_testing", "maze_suite")
ON_RAY = ("maze_ray", "maze_rllib")
LIST = (
    "import json, maze_kernel\n"
    "from maze_kernel.loader import Kernel\n"
    "kernel = Kernel.installed()\n"
    "print(json.dumps({'file': maze_kernel.__file__, 'plugins':"
    " {p.name: [p.status, p.cause, len(p.components)] for p in kernel.plugins}}))"
)
EVERY_TARGET = (
    "from importlib.resources import files\n"
    "from maze_kernel.loader import Kernel\n"
    "catalog = Kernel.installed().catalog\n"
    "entries = catalog.entries()\n"
    "assert entries\n"
    "for entry in entries:\n"
    "    package, _, name = entry.component.target.partition(':')\n"
    "    if name.endswith('.toml'):  # a preset is a file, not code\n"
    "        assert files(package).joinpath(name).is_file(), entry\n"
    "        continue\n"
    "    catalog.load(entry)\n"
    "    catalog.options_class(entry)\n"
)
EXPERIMENT = """
name = "few"
[env]
use = "gym"
id = "CartPole-v1"
[vector]
n_envs = 4
[trainer]
use = "ppo"
n_epochs = 1
epoch_length = 2
"""

pytestmark = pytest.mark.slow


def run(*command, cwd, code=0):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == code, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


@pytest.mark.parametrize("name", NAMES)
def test_it_installs_with_what_it_declares_and_every_target_can_be_imported(name, clean_environment, tmp_path):
    if name in ON_RAY:
        pytest.importorskip("ray", reason="Ray is not installed: make test-ray")
    python = clean_environment(name)
    found = json.loads(run(python, "-c", LIST, cwd=tmp_path))
    assert Path(found["file"]).is_relative_to(tmp_path), "the kernel must come from its wheel"
    assert name.replace("_", "-") in found["plugins"] or name in LIBRARIES
    for plugin, (status, cause, n_components) in found["plugins"].items():
        assert status == "active", f"{plugin}: {cause}"
        assert n_components > 0
    run(python, "-c", EVERY_TARGET, cwd=tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_wheels_are_typed_and_hold_no_tests(name, wheels):
    with zipfile.ZipFile(wheels[name]) as wheel:
        files = wheel.namelist()
    assert f"{name}/py.typed" in files
    assert not [file for file in files if "__pycache__" in file or file.startswith("tests/")]


class TestTheKernelAlone:
    """No torch anywhere: it lists, checks, completes, describes and scaffolds, and says what brings the rest."""

    @pytest.fixture
    def maze(self, clean_environment, tmp_path):
        python = clean_environment("maze_kernel")
        absent = "import importlib.util\nassert importlib.util.find_spec('torch') is None"
        run(python, "-c", absent, cwd=tmp_path)
        return lambda *arguments, code=0: run(python.parent / "maze", *arguments, cwd=tmp_path, code=code)

    def test_its_commands_work(self, maze, tmp_path):
        assert "maze-kernel" in maze("list-plugins")
        assert "list-plugins" in maze("--help")
        assert json.loads(maze("schema"))["properties"]["seed"]
        assert "check" in maze("describe", "command")
        maze("new-plugin", "maze-robots")
        assert (tmp_path / "maze_robots" / "src" / "maze_robots" / "plugin.py").exists()

    def test_it_checks_files_against_what_is_installed(self, maze, tmp_path):
        (tmp_path / "x.toml").write_text(EXPERIMENT)
        shown = maze("check", "x.toml", code=2)
        assert "no trainer is called 'ppo'" in shown
        assert "x.toml:9" in shown

    @pytest.mark.parametrize(
        ("command", "distribution"),
        [
            ("train", "maze-runtime"),
            ("export", "maze-deployment"),
            ("view", "maze-viewing"),
            ("compare", "maze-reports"),
        ],
    )
    def test_a_command_it_lacks_names_the_distribution_that_brings_it(self, maze, command, distribution):
        assert f"pip install {distribution}" in maze(command, "x.toml", code=2)


def test_kernel_and_a_writer_need_no_torch(clean_environment, tmp_path):
    python = clean_environment("maze_kernel", "maze_csv")
    code = (
        "import sys\n"
        "from maze_csv.logger import CsvLogger\n"
        "from maze_csv.options import CsvOptions\n"
        "from maze_kernel.contracts.logger import LoggerContext\n"
        "from pathlib import Path\n"
        "CsvLogger(LoggerContext(run_dir=Path('.'), name='x', n_epochs=1, max_env_steps=0), CsvOptions())\n"
        "assert not {'torch', 'gymnasium'} & set(sys.modules)\n"
    )
    run(python, "-c", code, cwd=tmp_path)
    assert "csv" in run(python.parent / "maze", "describe", "logger", "csv", cwd=tmp_path)


def test_kernel_runtime_gym_and_ppo_train(clean_environment, tmp_path):
    """Without the blocks and distributions of a model there is none by default; maze-perception brings them."""
    python = clean_environment("maze_ppo", "maze_gym", "maze_perception", "maze_distributions")
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    out = tmp_path / "run"
    run(python.parent / "maze", "train", "x.toml", "--out", out, cwd=tmp_path)
    assert [*out.rglob("model.safetensors")]
    run(python.parent / "maze", "rollout", out, "--episodes", "2", cwd=tmp_path)


def test_kernel_runtime_gym_and_ppo_say_what_a_model_lacks(clean_environment, tmp_path):
    python = clean_environment("maze_kernel", "maze_runtime", "maze_gym", "maze_ppo")
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    for command in ("check", "train"):
        refused = run(python.parent / "maze", command, "x.toml", cwd=tmp_path, code=2)
        assert "no plugin provides a default model" in refused
        assert "it comes with maze-perception: pip install maze-perception" in refused


def test_the_example_plugin_trains_from_wheels(clean_environment, tmp_path):
    python = clean_environment("maze_suite", "maze_hello")
    experiment = ROOT / "examples" / "maze_hello" / "experiment.toml"
    out = tmp_path / "run"
    run(python.parent / "maze", "train", experiment, "--set", "trainer.n_epochs=2", "--out", out, cwd=tmp_path)
    assert [*out.rglob("model.safetensors")]


def test_the_names_of_the_suite_are_those_of_the_distributions(clean_environment, tmp_path):
    python = clean_environment("maze_suite")
    code = (
        "import maze_suite, sys\n"
        "assert 'torch' not in sys.modules\n"
        "assert len(maze_suite.__all__) > 10\n"
        "for name in maze_suite.__all__:\n"
        "    assert getattr(maze_suite, name) is not None\n"
    )
    run(python, "-c", code, cwd=tmp_path)


AUTHORING = ROOT / "docs/reference/plugin-authoring.md"


def test_the_commands_for_authors_of_plugins_work(wheels, clean_environment, tmp_path):
    """Those that begin plugin-authoring.md, with a wheel in place of the editable install; its tests are among them."""
    (block,) = re.findall(r"test_wheels.py -->\n```console\n(.*?)```", AUTHORING.read_text(encoding="utf-8"), re.S)
    first, install, *others = (shlex.split(line.removeprefix("$ ")) for line in block.splitlines())
    run(sys.executable, "-c", "from maze_kernel.cli import main; main()", *first[1:], cwd=tmp_path)
    folder = tmp_path / "maze_robots"
    assert install == ["pip", "install", "-e", "./maze_robots[test]"]
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", folder, cwd=tmp_path)
    wheel = str(next(folder.glob("dist/*.whl")))
    python = clean_environment(wheel, "maze_suite", extras={wheel: ("test",)})
    printed = {}
    for program, *arguments in others:
        command = python if program == "python" else python.parent / program
        printed[arguments[0]] = run(command, *arguments, cwd=tmp_path)
    assert "maze-robots" in printed["list-plugins"]
    assert "elite_fraction" in printed["describe"]
    assert "passed" in printed["-m"]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [name for name in NAMES if (ROOT / "tests" / name).is_dir()])
def test_the_tests_of_a_package_pass_with_what_it_declares(name, clean_environment, tmp_path):
    """What only its tests need is declared in the extra `test`."""
    python = clean_environment(name, extras={name: ("test",)})
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT]
    run(*command, ROOT / "tests" / name, cwd=tmp_path)
