"""Commands that only look at plugins import no Optuna."""

import subprocess
import sys

import pytest

CODE = """
import sys
from maze_kernel.cli import main

code = main()
assert "optuna" not in sys.modules
sys.exit(code)
"""


@pytest.mark.parametrize("command", [["list-plugins"], ["describe", "searcher", "optuna"]], ids=" ".join)
def test_commands_import_no_optuna(command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "optuna" in done.stdout


def test_optuna_says_nothing_but_warnings(make_searcher, capfd):
    searcher = make_searcher(sampler="tpe", n_startup_trials=1)
    for number in range(4):
        searcher.propose(number)
        searcher.finish(number, "done", 1.0)
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "")
