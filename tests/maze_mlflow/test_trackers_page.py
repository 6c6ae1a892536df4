"""The commands of docs/how-to/trackers.md, in order: with a server of MLflow on a free port in place of the page's."""

import importlib.util
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("mlflow", reason="MLflow is not installed: make test-trackers")
if any(importlib.util.find_spec(name) is None for name in ("mlflow.server", "sqlalchemy", "trackio")):
    pytest.skip("the server of MLflow or trackio is not installed: make test-trackers", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/trackers.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"<!-- test: by tests/maze_mlflow/test_trackers_page.py -->\n```console\n(.*?)```", PAGE, re.S)
EXPERIMENT = re.search(r"<!-- test: file pole.toml -->\n```toml\n(.*?)```", PAGE, re.S)[1]
MAZE = (sys.executable, "-c", "from maze_kernel.cli import main; main()")
SHORT = ("--set", "trainer.epoch_length=1", "--set", "evaluation.n_episodes=1")
DEADLINE = 240
RUN = "runs/pole/20261122T132000Z-3f2a"
"""The folder of the run as the page has it."""


@pytest.fixture
def served(tmp_path):
    """Begins what the page begins with `&`, on a port of its own; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    with open(tmp_path / "server.log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
    try:
        until = time.monotonic() + DEADLINE
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, (tmp_path / "server.log").read_text()
            assert time.monotonic() < until, "the server did not begin to answer"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def run(line, folder, *more):
    """A `maze` command of the page; the run that it names is the one that was trained."""
    program, *arguments = shlex.split(line.removeprefix("$ "))
    assert program == "maze"
    arguments = [str(next(folder.glob("runs/pole/*"))) if argument == RUN else argument for argument in arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRACKIO_DIR": str(folder / "trackio")}
    command = [*MAZE, *arguments, *more]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.mark.timeout(900)
def test_the_page_trains_plays_the_model_and_sends_what_is_missing(served, tmp_path):
    import mlflow

    (begin, play, resume, other) = (block.splitlines() for block in COMMANDS)
    assert begin[1] == "$ mlflow server &"
    assert "http://127.0.0.1:5000" in EXPERIMENT
    (tmp_path / "pole.toml").write_text(EXPERIMENT.replace("http://127.0.0.1:5000", served))
    run(begin[0], tmp_path)
    run(begin[2], tmp_path, "--set", "trainer.n_epochs=2", *SHORT)

    client = mlflow.MlflowClient(tracking_uri=served)
    experiments = [own.experiment_id for own in client.search_experiments()]
    (kept,) = client.search_runs(experiments)
    assert kept.data.tags["team"] == "walkers"
    mlflow.set_tracking_uri(served)
    mlflow.artifacts.download_artifacts(run_id=kept.info.run_id, artifact_path="model", dst_path=str(tmp_path))
    assert "reward" in run(play[0], tmp_path, "--episodes", "1").stdout

    run(resume[0], tmp_path)
    (again,) = client.search_runs(experiments)
    assert again.info.run_id == kept.info.run_id, "a run that is done is sent once"
    run(other[0], tmp_path)
    assert [*(tmp_path / "trackio").glob("*.db")], "the tracker that the run never had has it now"
