"""Promise 8: whatever file `maze check` is given, it answers 0 or 2 on one screen, never with a traceback."""

import os
import random
import re
import subprocess
import sys

import pytest

EXPERIMENT = b"""\
# PPO on CartPole-v1.
name = "cartpole-ppo"
seed = 7

[env]
use = "gym"
id = "CartPole-v1"

[[wrappers]]
use = "reward-scaling"
scale = 0.1

[trainer]
use = "ppo"
n_epochs = 50
lr = { start = 1e-3, end = 0.0 }
gae_lambda = 0.95

[evaluation]
n_episodes = 8
"""
RUN = "import sys; from maze_kernel.cli import main; sys.exit(main())"


def check(folder, content, *arguments):
    path = folder / "experiment.toml"
    path.write_bytes(content)
    return subprocess.run(
        [sys.executable, "-c", RUN, "check", "experiment.toml", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )


def assert_refused(answer, place, *words):
    assert answer.returncode == 2, answer.stderr
    assert "Traceback" not in answer.stderr
    assert re.search(rf"--> {place}", answer.stderr), answer.stderr
    assert len(answer.stderr.splitlines()) < 60
    for word in words:
        assert word in answer.stderr


BAD = {
    "bool for int": (b"n_epochs = 50", b"n_epochs = true", r"experiment.toml:15:12", ("true (boolean)", "integer")),
    "float for int": (b"n_epochs = 50", b"n_epochs = 1.7", r"experiment.toml:15:12", ("1.7 (number)", "integer")),
    "text for int": (b"n_epochs = 50", b'n_epochs = "7"', r"experiment.toml:15:12", ("write 7 without quotes",)),
    "unknown key": (b"n_epochs = 50", b"n_epoch = 50", r"experiment.toml:15:1", ("did you mean: n_epochs",)),
    "nan": (b"gae_lambda = 0.95", b"gae_lambda = nan", r"experiment.toml:\d+:14", ("finite",)),
    "duplicate": (b"n_epochs = 50", b"n_epochs = 50\nn_epochs = 50", r"experiment.toml:16:1", ("twice",)),
    "not utf-8": (b"n_epochs = 50", b"n_epochs = 50 # \xff", r"experiment.toml:15:17", ("UTF-8",)),
    "nul": (b"n_epochs = 50", b"n_epochs = \0", r"experiment.toml:15:12", ("NUL",)),
    "deep": (b"n_epochs = 50", b"n_epochs = " + b"[" * 100_000, r"experiment.toml:", ("nested",)),
    "path": (b'name = "cartpole-ppo"', b'name = "../../etc"', r"experiment.toml:2:8", ("folder",)),
}


@pytest.mark.parametrize(("old", "new", "place", "words"), BAD.values(), ids=BAD.keys())
def test_bad_files(tmp_path, old, new, place, words):
    assert old in EXPERIMENT
    assert_refused(check(tmp_path, EXPERIMENT.replace(old, new)), place, *words)


def test_windows_files_are_fine(tmp_path):
    answer = check(tmp_path, b"\xef\xbb\xbf" + EXPERIMENT.replace(b"\n", b"\r\n"))
    assert answer.returncode == 0, answer.stderr


def test_a_file_of_100_megabytes(tmp_path):
    answer = check(tmp_path, b"# " + b"x" * (100 * 2**20))
    assert_refused(answer, "experiment.toml", "too large")


def test_an_override(tmp_path):
    answer = check(tmp_path, EXPERIMENT, "--set", "trainer.n_epochs=1.5")
    assert_refused(answer, "command line", "--set trainer.n_epochs=1.5", "^^^")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_damaged_files(tmp_path, seed):
    rng = random.Random(seed)
    content = bytearray(EXPERIMENT)
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(content))
        content[start : start + rng.randint(0, 5)] = rng.randbytes(rng.randint(0, 3))
    answer = check(tmp_path, bytes(content))
    assert answer.returncode in (0, 2), answer.stderr
    assert "Traceback" not in answer.stderr
    if answer.returncode == 2:
        assert "--> experiment.toml" in answer.stderr
