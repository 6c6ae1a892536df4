"""Clusters as `ray start` makes them: a token, certificates, a second machine, a command outside of the cluster."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import ray.util

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DRIVER = Path(__file__).with_name("ray_driver.py")
MAZE = "import sys; from maze_kernel.cli import main; sys.exit(main())"
SECONDS_ALLOWED = 240.0
EXPERIMENT = """
name = "outside"

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

[trainer]
use = "ppo"
n_epochs = 2
epoch_length = 1
n_rollout_steps = 16

[evaluation]
n_episodes = 2
"""


def free_port():
    """One that Ray does not give its workers."""
    while True:
        with socket.socket() as free:
            free.bind(("", 0))
            if (port := free.getsockname()[1]) > 20_000:
                return port


@pytest.fixture
def nodes():
    """`nodes(environment, *arguments)`: a node in the foreground, ended with everything that it started."""
    with contextlib.ExitStack() as stack:

        def start(environment, *arguments):
            folder = tempfile.mkdtemp(prefix="ray")  # paths of sockets must be short
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            how = ["--block", "--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats"]
            if "--head" in arguments:
                how += [f"--temp-dir={folder}", "--include-dashboard=false"]
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", *arguments, *how]
            log = stack.enter_context(open(Path(folder) / "said.txt", "w+"))
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            stack.callback(end, process)
            return process

        yield start


def end(process):
    """As `ray start --block` wants to be ended; whatever is left of its session is killed."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def await_port(address, process):
    """Return when somebody listens."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + SECONDS_ALLOWED
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), 1.0).close()
            return
        time.sleep(0.2)
    raise AssertionError(f"nobody listens at {address}")


def run(environment, *command, cwd=None):
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=cwd, capture_output=True, text=True, timeout=SECONDS_ALLOWED
    )


@pytest.fixture
def with_token():
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**others, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@pytest.fixture
def with_certificate(with_token, tmp_path):
    """As docs/how-to/cluster.md makes it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    names = f"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:{ray.util.get_node_ip_address()}"
    how = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=maze"]
    files = ["-keyout", "key.pem", "-out", "certificate.pem"]
    command = ["openssl", *how, *files, "-addext", names]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    certificate, key = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    variables = {"RAY_TLS_SERVER_CERT": certificate, "RAY_TLS_SERVER_KEY": key, "RAY_TLS_CA_CERT": certificate}
    return {**with_token, "RAY_USE_TLS": "1", **variables}


def test_a_command_outside_of_the_cluster_reaches_it_through_its_head(nodes, with_token, tmp_path):
    host, port = ray.util.get_node_ip_address(), free_port()
    head = nodes(with_token, "--head", f"--port={free_port()}", f"--ray-client-server-port={port}")
    await_port(f"{host}:{port}", head)
    address = f"ray://{host}:{port}"
    done = run(with_token, str(DRIVER), "talk", address)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a line of the actor") == 1
    assert "raised ValueError in 'fail': as told" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    (tmp_path / "x.toml").write_text(EXPERIMENT.replace("ADDRESS", address))
    trained = run(with_token, "-c", MAZE, "train", "x.toml", "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "done after epoch 2" in trained.stdout


def test_two_nodes_with_certificates_and_a_token(nodes, with_certificate, with_token):
    host = ray.util.get_node_ip_address()
    address = f"{host}:{free_port()}"
    ports = f"--port={address.rpartition(':')[2]}", f"--ray-client-server-port={free_port()}"
    head = nodes(with_certificate, "--head", *ports)
    await_port(address, head)
    nodes(with_certificate, f"--address={address}")
    code = (
        "import ray, sys, time\nray.init(address=sys.argv[1], logging_level='ERROR')\n"
        "end = time.monotonic() + 100\n"
        "while len(ray.nodes()) < 2 and time.monotonic() < end: time.sleep(0.2)\n"
        "print(len(ray.nodes()), 'nodes')"
    )
    assert "2 nodes" in run(with_certificate, "-c", code, address).stdout
    done = run(with_certificate, str(DRIVER), "talk", address)
    assert done.returncode == 0, done.stderr
    assert "a line of the actor" in done.stdout
    refused = run(with_token, str(DRIVER), "talk", address)
    assert f"the Ray cluster at '{address}' speaks TLS" in refused.stderr
    assert "RAY_TLS_CA_CERT" in refused.stderr
    assert "a line of the actor" not in refused.stdout
