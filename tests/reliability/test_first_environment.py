"""Promise 4 for the first environment of a run: with workers, what never returns or dies there is found at once.

Without workers the command itself dies, but not without a word.
"""

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())"]
ENVIRONMENT = """\
import os, time, gymnasium


class Broken(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1), gymnasium.spaces.Discrete(2)

    def __init__(self, *, how="hang"):
        if how == "hang":
            time.sleep(3600)
        if how.startswith("exit"):
            os._exit(int(how[4:] or 3))

    def reset(self, *, seed=None, options=None):
        os._exit(0)
"""
EXPERIMENT = """\
name = "broken"
[env]
use = "broken:Broken"
how = "{how}"
[trainer]
use = "ppo"
"""
WORKERS = """\
[workers]
use = "subprocess"
count = 1
timeout_seconds = 3
"""
COMMANDS = pytest.mark.parametrize(
    "command",
    [["train", "broken.toml", "--out", "run"], ["rollout", "broken.toml", "--policy", "random"]],
    ids="{0[0]}".format,
)


def run(tmp_path, command, experiment):
    (tmp_path / "broken.py").write_text(ENVIRONMENT)
    (tmp_path / "broken.toml").write_text(experiment)
    return subprocess.run(
        [*COMMAND, *command],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hang", "exit"])
@COMMANDS
def test_a_constructor_that_never_returns_ends_the_command_and_creates_nothing(tmp_path, command, how):
    done = run(tmp_path, command, EXPERIMENT.format(how=how) + WORKERS)
    assert done.returncode == 1
    assert "error:" in done.stderr
    assert any(words in done.stderr for words in ("while it was built", "did not answer", "exited"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == [
        "broken.py",
        "broken.toml",
    ]


@pytest.mark.slow
@COMMANDS
@pytest.mark.parametrize(("how", "code"), [("exit0", 1), ("exit7", 7), ("in reset", 1)])
def test_an_environment_that_ends_the_command_itself_is_named(tmp_path, command, how, code):
    done = run(tmp_path, command, EXPERIMENT.format(how=how))
    assert done.returncode == code
    assert f"error: the process was ended by os._exit({7 if code == 7 else 0})" in done.stderr
    assert "broken.py:" in done.stderr
