"""Promise 5 for trainers with workers: Ctrl-C, pressed again and again, ends a run with 130 and leaves nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXPERIMENT = """
name = "pole"
[env]
use = "gym"
id = "CartPole-v1"
[workers]
use = "subprocess"
count = 2
[trainer]
{trainer}
[evaluation]
n_episodes = 2
[checkpoint]
every_epochs = 1
[[loggers]]
use = "csv"
"""
TRAINERS = {
    "impala": 'use = "impala"\nnum_actors = 4\nactors_batch_size = 2\nn_rollout_steps = 20\nepoch_length = 2',
    "es": 'use = "es"\nn_rollouts_per_update = 8\nnoise = { use = "table", size = 1_000_000 }',
}
COMMAND = [sys.executable, "-c", "import sys; from maze_kernel.cli import main; sys.exit(main())"]
TAG = "MAZE_TEST_TAG"


def start(folder, trainer):
    (folder / "pole.toml").write_text(EXPERIMENT.format(trainer=TRAINERS[trainer]))
    tag = uuid.uuid4().hex
    process = subprocess.Popen(
        [*COMMAND, "train", "pole.toml", "--out", "run"],
        cwd=folder,
        env={**os.environ, TAG: tag, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not (folder / "run" / "checkpoints" / "last").exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    return process, tag


def press(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def assert_a_clean_end(process, tag, shared_memory, said=""):
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    lines = [line for line in (stderr + said + stdout).splitlines() if not line.startswith("run directory")]
    assert len(lines) <= 3, lines
    assert "--resume run" in lines[-1]
    deadline = time.monotonic() + 6
    while (left := tagged(tag)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    assert set(os.listdir("/dev/shm")) <= shared_memory


def tagged(tag):
    """Processes whose environment holds the tag."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and tag.encode() in (path / "environ").read_bytes():
                found.append(path.name)
    return found


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("trainer", list(TRAINERS))
def test_a_second_ctrl_c_at_any_time_leaves_without_a_traceback(tmp_path, trainer, delay):
    shared_memory = set(os.listdir("/dev/shm"))
    process, tag = start(tmp_path, trainer)
    press(process)
    time.sleep(delay)
    press(process)
    assert_a_clean_end(process, tag, shared_memory)


@pytest.mark.parametrize("trainer", list(TRAINERS))
def test_ctrl_c_is_left_alone_once_the_run_has_ended(tmp_path, trainer):
    shared_memory = set(os.listdir("/dev/shm"))
    process, tag = start(tmp_path, trainer)
    press(process)
    said = process.stdout.readline()
    assert "interrupted after epoch" in said
    while process.poll() is None:
        press(process)
        time.sleep(0.005)
    assert_a_clean_end(process, tag, shared_memory, said)
