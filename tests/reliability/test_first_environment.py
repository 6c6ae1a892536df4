"""Promise 4 for the first environment of a run: with workers, what never returns or dies there is found at once."""

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())"]
ENVIRONMENT = """\
import os, time, gymnasium


class Broken(gymnasium.Env):
    def __init__(self, *, how="hang"):
        os._exit(3) if how == "exit" else time.sleep(3600)
"""
EXPERIMENT = """\
name = "broken"
[env]
use = "broken:Broken"
how = "{how}"
[trainer]
use = "ppo"
[workers]
use = "subprocess"
count = 1
timeout_seconds = 3
"""


@pytest.mark.parametrize("how", ["hang", "exit"])
@pytest.mark.parametrize(
    "command",
    [["train", "broken.toml", "--out", "run"], ["rollout", "broken.toml", "--policy", "random"]],
    ids="{0[0]}".format,
)
def test_a_constructor_that_never_returns_ends_the_command_and_creates_nothing(tmp_path, command, how):
    (tmp_path / "broken.py").write_text(ENVIRONMENT)
    (tmp_path / "broken.toml").write_text(EXPERIMENT.format(how=how))
    done = subprocess.run(
        [*COMMAND, *command],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "error:" in done.stderr
    assert any(words in done.stderr for words in ("while it was built", "did not answer", "exited"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == [
        "broken.py",
        "broken.toml",
    ]
