"""Promise 5: however a process with workers is ended, nothing of it is left: no process, no shared memory, no file."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("orphan_driver.py")
TAG = "MAZE_TEST_TAG"
SECONDS_ALLOWED = 5.0

QUICK = {("SIGKILL", "process", "stuck"), ("SIGINT", "group", "stepping")}
MATRIX = [
    pytest.param(name, target, kind, marks=[] if (name, target, kind) in QUICK else pytest.mark.slow)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")
    for target in ("process", "group")
    for kind in ("stepping", "stuck", "own-process")
]


def _tagged(tag):
    """Processes whose environment holds the tag, except those that are dead already."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state = (path / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state != "Z" and tag.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def _start(kind, start_method, tmp_path):
    tag = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), kind, start_method],
        env={**os.environ, TAG: tag, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process, tag


def _assert_nothing_left(process, tag, process_ids, tmp_path):
    process.wait(SECONDS_ALLOWED)
    process.stdout.close()
    deadline = time.monotonic() + SECONDS_ALLOWED
    while (left := _tagged(tag)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process_id in left:
        os.kill(process_id, signal.SIGKILL)
    assert left == []
    assert list(tmp_path.iterdir()) == []
    names = os.listdir("/dev/shm")
    assert [name for name in names if "maze" in name or any(str(number) in name for number in process_ids)] == []


def _run(name, target, kind, start_method, tmp_path):
    process, tag = _start(kind, start_method, tmp_path)
    # The driver, the supervisor, two workers, and what the four environments started.
    n_processes = 8 if kind == "own-process" else 4
    deadline = time.monotonic() + SECONDS_ALLOWED
    while len(process_ids := _tagged(tag)) != n_processes and time.monotonic() < deadline:
        time.sleep(0.05)  # a process that is just being started has no environment to read yet
    if len(process_ids) != n_processes:
        for process_id in process_ids:  # or they would run on beside every later test
            os.kill(process_id, signal.SIGKILL)
        pytest.fail(f"{len(process_ids)} processes were started, not {n_processes}")
    (os.killpg if target == "group" else os.kill)(process.pid, getattr(signal, name))
    _assert_nothing_left(process, tag, process_ids, tmp_path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("name", "target", "kind"), MATRIX)
def test_no_process_outlives_the_one_that_started_it(name, target, kind, tmp_path):
    _run(name, target, kind, "forkserver", tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["stepping", "stuck", "own-process"])
def test_the_same_with_fresh_interpreters(kind, tmp_path):
    _run("SIGKILL", "process", kind, "spawn", tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_workers_die_with_their_supervisor_even_if_the_caller_is_stopped(tmp_path):
    process, tag = _start("stuck", "forkserver", tmp_path)
    process_ids = _tagged(tag)
    os.kill(process.pid, signal.SIGSTOP)
    (supervisor,) = [number for number in process_ids if _parent(number) == process.pid]
    os.kill(supervisor, signal.SIGKILL)
    os.kill(process.pid, signal.SIGKILL)
    _assert_nothing_left(process, tag, process_ids, tmp_path)


@pytest.mark.timeout(60)
def test_workers_ignore_an_interrupt(tmp_path):
    process, tag = _start("stepping", "forkserver", tmp_path)
    process_ids = _tagged(tag)
    for number in process_ids:
        if number != process.pid:
            os.kill(number, signal.SIGINT)
    time.sleep(0.5)
    assert _tagged(tag) == process_ids
    process.kill()
    _assert_nothing_left(process, tag, process_ids, tmp_path)


def _parent(process_id):
    return int(Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[1])
