"""Processes that use a cluster: what they print, how they are stopped, what is left of them, whom they may join."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import psutil
import pytest
import ray

from maze_kernel.errors import RequestError, WorkerError
from maze_ray.authentication import check_address
from maze_ray.connection import connect
from maze_ray.pool import RayPool
from maze_testing.worker_actors import Probe

DRIVER = Path(__file__).with_name("ray_driver.py")
TAG = "MAZE_TEST_TAG"
MAZE = "import sys; from maze_kernel.cli import main; sys.exit(main())"
SECONDS_ALLOWED = 120.0
SECONDS_TO_END = 10.0
EXPERIMENT = """
name = "interrupted"

[env]
use = "gym"
id = "CartPole-v1"

[vector]
n_envs = 4
mode = "workers"

[workers]
use = "ray"
address = "ADDRESS"
count = 2
cpus_per_worker = 0.5
shared_files = true

[trainer]
use = "ppo"
n_epochs = 1000000
patience = 0
epoch_length = 1
n_rollout_steps = 16

[evaluation]
n_episodes = 0
"""


def tagged(tag):
    """Processes whose environment holds the tag, except those that are dead already."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(TAG) == tag and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def start(what, address, tag=""):
    return subprocess.Popen(
        [sys.executable, str(DRIVER), what, address],
        env={**os.environ, TAG: tag},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def hosts_of_other_jobs():
    """Actors of Maze on the cluster that live and are not of this process."""
    own = ray.get_runtime_context().get_job_id()
    actors = ray._private.state.actors().values()
    return [actor for actor in actors if actor["State"] == "ALIVE" and actor["JobID"] != own]


def await_none(find):
    """What is still found when the time is up."""
    deadline = time.monotonic() + SECONDS_TO_END
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def test_what_actors_print_arrives_once_and_says_whose_it_is(cluster):
    process = start("talk", cluster.address)
    out, errors = process.communicate(timeout=SECONDS_ALLOWED)
    whose = r"\[actor 1, process \d+ on [\d.]+\] "
    assert len(re.findall(whose + "a line of the actor", out)) == 1
    assert len(re.findall(whose + "another one", errors)) == 1
    assert errors.count('raise ValueError("as told")') == 1
    assert re.search(r"error: actor 1 \(process \d+ on node [\d.]+, \w+\) raised ValueError in 'fail': as told", errors)
    assert "(raylet" not in out + errors
    assert process.returncode == 0


def test_an_interrupt_ends_the_actors_of_the_run_and_nothing_else(cluster, options, tmp_path):
    connect(options())
    path = tmp_path / "interrupted.toml"
    path.write_text(EXPERIMENT.replace("ADDRESS", cluster.address))
    with RayPool(options(count=1)) as pool:
        other = pool.spawn(Probe, 1)
        command = [sys.executable, "-c", MAZE, "train", str(path), "--out", str(tmp_path / "run")]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path)
        deadline = time.monotonic() + SECONDS_ALLOWED
        curve = tmp_path / "run" / "statistics" / "train.csv"
        while not curve.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(hosts_of_other_jobs()) >= 2
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS_ALLOWED)
        assert process.returncode == 130, errors
        expected = ("run directory: ", "the model reads ", "observation", "trainer ", "epoch ", "SIGINT: ")
        assert [line for line in errors.splitlines() if not line.startswith(expected)] == []
        assert list((tmp_path / "run" / "checkpoints").iterdir())
        assert await_none(hosts_of_other_jobs) == []
        assert other.call(0, "echo", 1).result() == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_nothing_is_left_of_a_process_and_its_own_cluster(name):
    tag = uuid.uuid4().hex
    process = start("work", "", tag)
    try:
        assert process.stdout.readline() == "ready\n"
        assert len(tagged(tag)) > 4
        os.kill(process.pid, getattr(signal, name))
        process.wait(SECONDS_ALLOWED)
        left = await_none(lambda: tagged(tag))
    finally:
        for one in tagged(tag):
            one.kill()
        process.communicate()
    assert [one.name() for one in left] == []


def test_a_submitted_job_keeps_its_runs_outside_of_its_folder(maze, monkeypatch, tmp_path):
    (tmp_path / "x.toml").write_text(EXPERIMENT.replace("ADDRESS", "auto"))
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    for place in ([], ["--out", "runs/mine"]):
        done = maze("train", "x.toml", *place)
        assert done.exit_code == 2
        assert "would be thrown away" in done.stderr
        assert "--out /shared/runs/NAME" in done.stderr
        assert list(tmp_path.iterdir()) == [tmp_path / "x.toml"]
    RayPool().check_run_directory(tmp_path / "mine")


def test_an_address_where_nobody_listens_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for place in (address, f"ray://{address}"):
        with pytest.raises(WorkerError, match=f"no Ray cluster answers at '{place}'"):
            check_address(place)


def test_a_cluster_without_certificates_is_named_where_there_are_some(cluster, monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    for address in (cluster.address, f"ray://{cluster.address}"):
        with pytest.raises(RequestError, match="does not speak TLS"):
            check_address(address)


@pytest.mark.slow
def test_a_missing_token_is_named(tmp_path):
    code = """
        import os, sys
        from ray.cluster_utils import Cluster
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        print(cluster.address, flush=True)
        sys.stdin.read()
        cluster.shutdown()
    """
    token = {"RAY_AUTH_TOKEN": "a" * 64}
    head = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "RAY_AUTH_MODE": "token", **token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = head.stdout.readline().strip()
        done = subprocess.run(
            [sys.executable, str(DRIVER), "talk", address],
            env={name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")},
            capture_output=True,
            text=True,
            timeout=SECONDS_ALLOWED,
        )
        assert f"the Ray cluster at '{address}' asks for a token" in done.stderr
        assert "RAY_AUTH_MODE=token" in done.stderr
        assert "InvalidAuthToken" not in done.stderr
        joined = subprocess.run(
            [sys.executable, str(DRIVER), "talk", address],
            env={**os.environ, "RAY_AUTH_MODE": "token", **token},
            capture_output=True,
            text=True,
            timeout=SECONDS_ALLOWED,
        )
        assert "a line of the actor" in joined.stdout
    finally:
        head.communicate("\n", timeout=SECONDS_ALLOWED)


@pytest.mark.slow
def test_a_folder_is_sent_to_the_actors_and_is_where_they_work(tmp_path):
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "data.txt").write_text("forty")
    (folder / "beside_the_data.py").write_text("NUMBER = 2")
    code = """
        from maze_ray.options import RayOptions
        from maze_ray.pool import RayPool

        class Reads:
            def __init__(self, context):
                pass

            def read(self):
                import beside_the_data
                return open("data.txt").read(), beside_the_data.NUMBER

        with RayPool(RayOptions(working_dir="sent", cpus_per_worker=0.5)) as pool:
            print(pool.spawn(Reads, 1).call(0, "read").result())
    """
    (tmp_path / "driver.py").write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "driver.py"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_ALLOWED
    )
    assert done.stdout.strip() == "('forty', 2)", done.stderr
