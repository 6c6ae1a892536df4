"""Against a real database, which is read back with sqlite3."""

import importlib.util
import json
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

if importlib.util.find_spec("trackio") is None:
    pytest.skip("trackio is not installed: make test-trackers", allow_module_level=True)

from tracked import (
    DEADLINE,
    MAZE,
    TRAINING,
    begin_training,
    check_whole,
    context,
    kill_after,
    record,
    rich_record,
    store_run,
    train,
)

from maze_kernel.contracts.logger import Outcome
from maze_runtime.run.tracked_run import EPOCH_TAG
from maze_testing.loggers import check_logger
from maze_trackio.logger import TrackioLogger
from maze_trackio.options import TrackioOptions

DONE = Outcome(status="done", reason="all epochs done", best_epoch=2, best_metric=0.5, metric="A/x")


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    """The folder of the databases; trackio asks for it when it is imported."""
    folder = tmp_path_factory.mktemp("trackio")
    os.environ["TRACKIO_DIR"] = str(folder)
    yield folder
    del os.environ["TRACKIO_DIR"]


@pytest.fixture
def project(request):
    return request.node.name.partition("[")[0]


@pytest.fixture
def logger(project):
    def make(run_dir, resumed_epoch=0, **options):
        options = {"project": project, "timeout_seconds": DEADLINE, **options}
        return TrackioLogger(context(run_dir, resumed_epoch), TrackioOptions(**options))

    return make


def read(folder, project, table="metrics"):
    """The rows of a table as dicts."""
    with closing(sqlite3.connect(folder / f"{project}.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")]


def logged(folder, project):
    """Pairs (step, statistics)."""
    return [(row["step"], json.loads(row["metrics"])) for row in read(folder, project)]


def test_a_run_has_its_configuration_and_every_kind_of_statistic(tmp_path, store, project, logger, capsys):
    run_dir = store_run(tmp_path / "run")
    (run_dir / "figures").mkdir()
    (run_dir / "figures" / "policy.svg").write_text("<svg/>")
    writer = logger(run_dir, tags=("draft",), name="the first", group="walkers")
    writer.write(rich_record(1))
    writer.write(record(2))
    writer.close(DONE)
    assert capsys.readouterr().out == ""
    (first_step, first), (second_step, second) = logged(store, project)
    assert (first_step, second_step) == (10, 20)
    assert (first["train_A/x"], second["train_A/x"], second["eval_A/x"]) == (1.0, 2.0, -1.0)
    assert first["train_A/nan"] == "NaN"
    assert first["train_array"]["_type"] == "trackio.histogram"
    assert (
        sum(first["train_array"]["_value"] if "_value" in first["train_array"] else first["train_array"]["values"]) == 5
    )
    assert first["train_note"] == {"_type": "trackio.markdown", "_value": "epoch 1"}
    pictures = [path.suffix for path in (store / "media" / project).rglob("*") if path.is_file()]
    assert sorted(pictures) == [".html", ".png"]
    assert not {"train_note", "networks/policy"} & set(second)
    (config,) = [json.loads(row["config"]) for row in read(store, project, "configs")]
    assert config["trainer.lr"] == 0.5
    assert config["version.python"] == "3.11.1"
    assert config["tags"] == ["draft"]
    assert config["overrides"] == ["trainer.lr=0.5"]
    assert config["_Group"] == "walkers"


@pytest.mark.parametrize("resumed", [3, 0])
def test_a_resume_leaves_each_epoch_once(tmp_path, store, project, logger, resumed):
    project = f"{project}-{resumed}"
    run_dir = store_run(tmp_path / "run")
    first = logger(run_dir, project=project)
    for epoch in range(1, 6):
        first.write(record(epoch))
    first.close(Outcome(status="interrupted", reason="Ctrl-C"))
    second = logger(run_dir, resumed, project=project)
    for epoch in range(resumed + 1, 8):
        second.write(record(epoch))
    second.close(DONE)
    assert [(step, values[EPOCH_TAG]) for step, values in logged(store, project)] == [(10 * n, n) for n in range(1, 8)]
    assert len({row["run_id"] for row in read(store, project)}) == 1


def test_two_runs_of_one_name_stay_two(tmp_path, store, project, logger):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        writer = logger(store_run(tmp_path / folder / "run"))
        writer.write(record(1))
        writer.close(DONE)
    assert len({row["run_id"] for row in read(store, project)}) == 2


def test_the_contract_of_loggers_is_kept(tmp_path):
    check_logger(lambda given: TrackioLogger(given, TrackioOptions()), store_run(tmp_path / "run"))


def test_killed_and_resumed_each_epoch_is_there_once_and_the_model_plays(tmp_path, store, project):
    import trackio

    (tmp_path / "pole.toml").write_text(TRAINING + f'[[loggers]]\nuse = "trackio"\nproject = "{project}"\n')
    run_dir = tmp_path / "run"
    many = "trainer.n_epochs=2000"
    kill_after(begin_training(tmp_path, "pole.toml", "--out", run_dir, "--set", many), run_dir, 3)
    kill_after(begin_training(tmp_path, "--resume", run_dir), run_dir, 9)
    last = int(max(path.name for path in (run_dir / "checkpoints").glob("epoch-*"))[-6:])
    n_epochs = last + 3
    train(tmp_path, "--resume", run_dir, "--set", f"trainer.n_epochs={n_epochs}")
    check_whole(run_dir, n_epochs)
    epochs = [values[EPOCH_TAG] for _, values in logged(store, project)]
    assert epochs == [*range(1, len(epochs) + 1)]
    assert len(epochs) >= n_epochs
    reader = trackio.Run(url=None, project=project, client=None, name="reader")
    played = reader.use_artifact("run-model:best").download(tmp_path / "played")
    reader.finish()
    subprocess.run([*MAZE, "rollout", played, "--episodes", "1"], check=True, timeout=DEADLINE, cwd=tmp_path)


def test_a_database_that_cannot_be_written_never_stops_a_run(tmp_path):
    (tmp_path / "pole.toml").write_text(TRAINING + '[[loggers]]\nuse = "trackio"\n')
    (tmp_path / "file").write_text("no folder")
    run_dir = tmp_path / "run"
    train(tmp_path, "pole.toml", "--out", run_dir, TRACKIO_DIR=str(tmp_path / "file" / "x"))
    check_whole(run_dir, 6)
    assert "logger TrackioLogger failed" in (run_dir / "log.txt").read_text()
