"""What imports nothing of Ray: commands, checks, descriptions. Without Ray a check says that it is missing."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

COMMANDS = {
    "list-plugins": ["list-plugins"],
    "describe": ["describe", "workers", "ray"],
    "check": ["check", "cluster.toml"],
}
CODE = """
import sys
from maze_kernel.cli import main

code = main()
assert "ray" not in sys.modules
sys.exit(code)
"""
EXPERIMENT = """
name = "x"
env = { use = "gym", id = "CartPole-v1" }
workers = { use = "ray", count = 64, address = "auto" }
trainer = { use = "es" }
"""


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_import_no_ray(kernel, command, tmp_path):
    if not any(record.distribution == "maze-ray" for record in kernel.plugins):
        pytest.skip("maze-ray is not installed")
    (tmp_path / "cluster.toml").write_text(EXPERIMENT)
    done = subprocess.run(
        [sys.executable, "-c", CODE, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    if command[0] == "check" and find_spec("ray") is None:
        assert done.returncode == 2
        assert "the worker pool 'ray' needs Ray, which is not installed" in done.stderr
        assert "cluster.toml:4:1" in done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ray" in done.stdout or command[0] == "check"
