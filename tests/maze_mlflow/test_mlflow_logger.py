"""Against a real server, which is started here."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: make test-trackers")
if importlib.util.find_spec("mlflow.server") is None or importlib.util.find_spec("sqlalchemy") is None:
    pytest.skip("the server of MLflow is not installed: make test-trackers", allow_module_level=True)

from tracked import (  # noqa: E402
    DEADLINE,
    MAZE,
    NOBODY,
    TRAINING,
    Unanswering,
    begin_training,
    check_whole,
    context,
    kill_after,
    record,
    rich_record,
    store_run,
    train,
)

from maze_kernel.contracts.logger import Outcome  # noqa: E402
from maze_mlflow.logger import _BATCH, MlflowLogger  # noqa: E402
from maze_mlflow.options import MlflowOptions  # noqa: E402
from maze_runtime.run.tracked_run import EPOCH_TAG  # noqa: E402
from maze_runtime.run.tracking import TrackerError  # noqa: E402
from maze_testing.loggers import check_logger  # noqa: E402

DONE = Outcome(status="done", reason="all epochs done", best_epoch=2, best_metric=0.5, metric="A/x")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server with its store in SQLite."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/store.db", "--artifacts-destination", str(folder / "files")]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + DEADLINE
        while not answers(f"{url}/health"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, "the server did not begin to answer"
            time.sleep(0.1)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture
def client(server):
    return mlflow.MlflowClient(tracking_uri=server)


@pytest.fixture
def logger(server, request):
    """`logger(run_dir, resumed_epoch=0, **options)`, with an experiment for each test."""

    def make(run_dir, resumed_epoch=0, **options):
        options = {"tracking_uri": server, "experiment": request.node.name, "timeout_seconds": DEADLINE, **options}
        return MlflowLogger(context(run_dir, resumed_epoch), MlflowOptions(**options))

    return make


@pytest.fixture
def the_run(client, request):
    """`the_run()`: the only one of the test's experiment."""

    def find(experiment=request.node.name):
        found = client.get_experiment_by_name(experiment)
        (run,) = client.search_runs([found.experiment_id])
        return run

    return find


def values(client, run, tag):
    return [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, tag)]


def test_a_run_has_parameters_metrics_and_artifacts(tmp_path, logger, client, the_run):
    experiment = {"trainer": {"use": "toy", "lr": 0.5}, "wrappers": [{"use": "x", "names[0]": "y" * 7000}]}
    run_dir = store_run(tmp_path / "run", experiment)
    (run_dir / "figures").mkdir()
    (run_dir / "figures" / "policy.svg").write_text("<svg/>")
    writer = logger(run_dir, tags=("team=walkers", "draft"), name="the first")
    writer.write(rich_record(1))
    writer.write(record(2))
    writer.close(DONE)
    run = the_run()
    assert run.info.run_name == "the first"
    assert run.info.status == "FINISHED"
    assert run.data.params["trainer.lr"] == "0.5"
    assert run.data.params["wrappers.0.names_0_"] == "y" * 6000
    assert run.data.tags["team"] == "walkers"
    assert run.data.tags["draft"] == ""
    assert run.data.tags["maze.overrides"] == "trainer.lr=0.5"
    assert run.data.tags["version.python"] == "3.11.1"
    assert run.data.tags["maze.outcome"] == "done: all epochs done"
    assert run.data.tags["maze.best_epoch"] == "2"
    assert values(client, run, "train_A/x") == [(10, 1.0), (20, 2.0)]
    assert values(client, run, "eval_A/x") == [(20, -1.0)]
    assert str(run.data.metrics["train_A/nan"]) == "nan"
    read = client.download_artifacts(run.info.run_id, "", str(tmp_path))
    details = json.loads(Path(read, "epochs", "000001.json").read_text())
    assert details["texts"] == {"train_note": "epoch 1"}
    assert sum(details["histograms"]["train_array"]["counts"]) == 5
    assert Path(read, "figures", "train_figure", "000001.png").read_bytes().startswith(b"\x89PNG")
    assert Path(read, "networks", "policy.svg").read_text() == "<svg/>"
    assert json.loads(Path(read, "run.json").read_text())["experiment"] == experiment
    assert not Path(read, "epochs", "000002.json").exists()


def test_more_statistics_than_a_request_may_hold(tmp_path, logger, the_run, monkeypatch):
    monkeypatch.setitem(_BATCH, "metrics", 10)
    writer = logger(store_run(tmp_path / "run"))
    writer.write(record(1, **{f"many/{index}": float(index) for index in range(25)}))
    writer.close(DONE)
    metrics = the_run().data.metrics
    assert metrics["train_many/24"] == 24.0
    assert metrics[EPOCH_TAG] == 1.0


def test_what_a_resume_changed_does_not_stop_it(tmp_path, logger, client, the_run):
    run_dir = store_run(tmp_path / "run", {"trainer": {"n_epochs": 1}})
    for resumed, n_epochs in ((0, 1), (1, 2)):
        store_run(run_dir, {"trainer": {"n_epochs": n_epochs}, f"new{n_epochs}": True})
        writer = logger(run_dir, resumed)
        writer.write(record(resumed + 1))
        writer.close(DONE)
    run = the_run()
    assert run.data.params == {"trainer.n_epochs": "1", "new1": "True", "new2": "True"}
    assert values(client, run, EPOCH_TAG) == [(10, 1.0), (20, 2.0)]


def test_the_contract_of_loggers_is_kept(tmp_path, server):
    run_dir = store_run(tmp_path / "run")
    options = MlflowOptions(tracking_uri=server, experiment="contract")
    check_logger(lambda given: MlflowLogger(given, options), run_dir)


def test_killed_and_resumed_each_epoch_is_there_once_and_the_model_plays(tmp_path, server, client, the_run):
    table = f'[[loggers]]\nuse = "mlflow"\ntracking_uri = "{server}"\nexperiment = "killed"\n'
    (tmp_path / "pole.toml").write_text(TRAINING + table)
    run_dir = tmp_path / "run"
    many = "trainer.n_epochs=500"
    kill_after(begin_training(tmp_path, "pole.toml", "--out", run_dir, "--set", many), run_dir, 3)
    kill_after(begin_training(tmp_path, "--resume", run_dir), run_dir, 7)
    last = int(max(path.name for path in (run_dir / "checkpoints").glob("epoch-*"))[-6:])
    n_epochs = last + 3
    train(tmp_path, "--resume", run_dir, "--set", f"trainer.n_epochs={n_epochs}")
    check_whole(run_dir, n_epochs)
    run = the_run("killed")
    logged = [epoch for _, epoch in sorted(values(client, run, EPOCH_TAG))]
    assert logged[:n_epochs] == [*range(1, n_epochs + 1)]
    assert logged == [*range(1, len(logged) + 1)]  # the last kill may have come after epochs that are now too many
    steps = [step for step, _ in values(client, run, "train_BaseEnvEvents/reward/mean")]
    assert len(steps) == len(set(steps))
    assert steps
    model = client.download_artifacts(run.info.run_id, "model", str(tmp_path))
    subprocess.run([*MAZE, "rollout", model, "--episodes", "1"], check=True, timeout=DEADLINE, cwd=tmp_path)


def test_where_nobody_listens_the_run_is_whole_and_can_be_sent_afterwards(tmp_path, server, client, the_run):
    (tmp_path / "pole.toml").write_text(TRAINING + '[[loggers]]\nuse = "mlflow"\nexperiment = "later"\n')
    run_dir = tmp_path / "run"
    said = train(
        tmp_path, "pole.toml", "--out", run_dir, MLFLOW_TRACKING_URI=NOBODY, MLFLOW_HTTP_REQUEST_MAX_RETRIES="0"
    )
    check_whole(run_dir, 6)
    log = (run_dir / "log.txt").read_text()
    assert log.count("logger MlflowLogger failed") == 1
    assert "Traceback" not in said
    train(tmp_path, "--resume", run_dir, MLFLOW_TRACKING_URI=server)
    assert [epoch for _, epoch in values(client, the_run("later"), EPOCH_TAG)] == [1, 2, 3, 4, 5, 6]


def test_a_server_that_never_answers_is_left_out(tmp_path):
    with Unanswering() as silent:
        options = MlflowOptions(tracking_uri=silent.url, timeout_seconds=0.5)
        writer = MlflowLogger(context(store_run(tmp_path / "run")), options)
        writer.write(record(1))
        with pytest.raises(TrackerError, match=r"has not answered for 0\.5 seconds"):
            writer.close(DONE)
