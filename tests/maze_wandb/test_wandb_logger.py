"""Offline, against the files that W&B writes, which its own reader reads; and online where nobody listens."""

import importlib.util
import json
import subprocess
import sys

import pytest

if importlib.util.find_spec("wandb") is None:
    pytest.skip("wandb is not installed: make test-trackers", allow_module_level=True)

from tracked import (
    DEADLINE,
    NOBODY,
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
from wandb_server import WandbServer

from maze_kernel.contracts.logger import Outcome
from maze_runtime.run.tracked_run import EPOCH_TAG
from maze_testing.loggers import check_logger
from maze_wandb.logger import AXIS, WandbLogger
from maze_wandb.options import WandbOptions

DONE = Outcome(status="done", reason="all epochs done", best_epoch=2, best_metric=0.5, metric="A/x")
TABLE = '[[loggers]]\nuse = "wandb"\nproject = "walkers"\n'


@pytest.fixture(autouse=True)
def no_key(tmp_path_factory, monkeypatch):
    """Whoever runs the tests may have one."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC", "WANDB_PROJECT", "WANDB_ENTITY"):
        monkeypatch.delenv(name, raising=False)


def logger(run_dir, resumed_epoch=0, **options):
    return WandbLogger(context(run_dir, resumed_epoch), WandbOptions(timeout_seconds=DEADLINE, **options))


def records(run_dir):
    """What the files of a run hold, in the order in which they were begun."""
    found = []
    for file in sorted((run_dir / "wandb").glob("offline-run-*/*.wandb")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
        read = subprocess.run(command, capture_output=True, text=True, check=True)
        found += [json.loads(line) for line in read.stdout.splitlines() if line.startswith("{")]
    return found


def of_kind(found, kind):
    return [entry[kind] for entry in found if entry["type"] == kind]


def history(run_dir):
    return [row["item"] for row in of_kind(records(run_dir), "history")]


def test_a_run_has_its_configuration_and_every_kind_of_statistic(tmp_path, capsys):
    run_dir = store_run(tmp_path / "run")
    (run_dir / "figures").mkdir()
    (run_dir / "figures" / "policy.svg").write_text("<svg/>")
    writer = logger(run_dir, tags=("draft",), name="the first", project="walkers")
    writer.write(rich_record(1))
    writer.write(record(2))
    writer.close(DONE)
    assert capsys.readouterr().out == ""
    found = records(run_dir)
    (run,) = of_kind(found, "run")
    assert (run["project"], run["display_name"], run["tags"]) == ("walkers", "the first", ["draft"])
    config = run["config"]["update"]
    assert config["trainer"] == {"use": "toy", "lr": 0.5, "hidden": [64, 64]}
    assert config["maze"]["overrides"] == ["trainer.lr=0.5"]
    assert config["maze"]["versions"] == {"python": "3.11.1"}
    assert ("*", AXIS) in [(metric.get("glob_name"), metric.get("step_metric")) for metric in of_kind(found, "metric")]
    first, second = [row["item"] for row in of_kind(found, "history")]
    assert (first[AXIS], second[AXIS]) == (10, 20)
    assert (first["train_A/x"], second["train_A/x"], second["eval_A/x"]) == (1, 2, -1)
    assert sum(first["train_array.values"]) == 5
    assert first["train_note"] == "epoch 1"
    files = next((run_dir / "wandb").glob("offline-run-*")) / "files"
    assert (files / first["train_figure.path"]).read_bytes().startswith(b"\x89PNG")
    assert "<svg/>" in (files / first["networks/policy.path"]).read_text()
    assert "networks/policy.path" not in second
    summary = {key: value for entry in of_kind(found, "summary") for key, value in entry["update"].items()}
    assert summary["maze/outcome"] == "done: all epochs done"
    assert summary["maze/best_metric"] == 0.5
    assert of_kind(found, "exit")[0]["exit_code"] == 0


def test_a_resume_leaves_each_epoch_once_in_one_run(tmp_path):
    run_dir = store_run(tmp_path / "run")
    first = logger(run_dir)
    for epoch in range(1, 6):
        first.write(record(epoch))
    first.close(Outcome(status="interrupted", reason="Ctrl-C"))
    second = logger(run_dir, 3)
    for epoch in range(4, 8):
        second.write(record(epoch))
    second.close(DONE)
    assert [(row[AXIS], row[EPOCH_TAG]) for row in history(run_dir)] == [(10 * n, n) for n in range(1, 8)]
    assert len({run["run_id"] for run in of_kind(records(run_dir), "run")}) == 1


def test_the_contract_of_loggers_is_kept(tmp_path):
    check_logger(lambda given: WandbLogger(given, WandbOptions()), store_run(tmp_path / "run"))


def test_killed_and_resumed_each_epoch_is_there_once(tmp_path):
    """Of a killed process W&B has only what filled its buffer; the rest is read from the statistics."""
    (tmp_path / "pole.toml").write_text(TRAINING + TABLE)
    run_dir = tmp_path / "run"
    many = "trainer.n_epochs=2000"
    kill_after(begin_training(tmp_path, "pole.toml", "--out", run_dir, "--set", many), run_dir, 15)
    kill_after(begin_training(tmp_path, "--resume", run_dir), run_dir, 20)
    last = int(max(path.name for path in (run_dir / "checkpoints").glob("epoch-*"))[-6:])
    n_epochs = last + 3
    train(tmp_path, "--resume", run_dir, "--set", f"trainer.n_epochs={n_epochs}")
    check_whole(run_dir, n_epochs)
    epochs = [row[EPOCH_TAG] for row in history(run_dir)]
    assert epochs == [*range(1, len(epochs) + 1)]
    assert len(epochs) >= n_epochs
    assert of_kind(records(run_dir), "artifact")


@pytest.fixture
def fresh():
    """W&B reads the environment once in a process; here before and after the test."""
    import wandb

    wandb.teardown()
    yield
    wandb.teardown()


def test_online_a_resume_goes_on_where_the_server_is(tmp_path, fresh, monkeypatch):
    run_dir = store_run(tmp_path / "run")
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    with WandbServer() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        for resumed, last in ((0, 5), (3, 7)):
            writer = logger(run_dir, resumed, upload_model=False)
            for epoch in range(resumed + 1, last + 1):
                writer.write(record(epoch))
            writer.close(DONE)
        (run,) = server.runs.values()
    assert [(row[AXIS], row[EPOCH_TAG]) for row in run["history"]] == [(10 * n, n) for n in range(1, 8)]
    assert [row["_step"] for row in run["history"]] == [*range(7)]
    assert run["summary"]["maze/best_epoch"] == 2
    (entry,) = json.loads((run_dir / "tracker.json").read_text())["runs"].values()
    assert entry["url"].endswith(f"/lab/toy/runs/{entry['id']}")


def test_a_server_that_is_gone_holds_up_neither_training_nor_its_end(tmp_path):
    (tmp_path / "pole.toml").write_text(TRAINING + TABLE + "timeout_seconds = 5.0\n")
    run_dir = tmp_path / "run"
    with WandbServer(dies=True) as server:
        train(tmp_path, "pole.toml", "--out", run_dir, WANDB_BASE_URL=server.url, WANDB_API_KEY="k" * 40)
    check_whole(run_dir, 6)
    assert (run_dir / "log.txt").read_text().count("logger WandbLogger failed") == 1


def test_where_nobody_listens_the_run_is_whole_and_can_be_sent_afterwards(tmp_path):
    (tmp_path / "pole.toml").write_text(TRAINING + TABLE + "timeout_seconds = 5.0\n")
    run_dir = tmp_path / "run"
    said = train(tmp_path, "pole.toml", "--out", run_dir, WANDB_BASE_URL=NOBODY, WANDB_API_KEY="k" * 40)
    check_whole(run_dir, 6)
    assert "Traceback" not in said
    assert (run_dir / "log.txt").read_text().count("logger WandbLogger failed") == 1
    tables = '[{use = "csv"}, {use = "wandb", mode = "offline"}]'
    train(tmp_path, "--resume", run_dir, "--set", f"loggers={tables}")
    assert [row[EPOCH_TAG] for row in history(run_dir)] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_a_killed_process_still_holds_is_waited_for(tmp_path, monkeypatch):
    import wandb

    begin, refusals = wandb.init, ["run ID toy is in use", "run ID toy is in use"]

    def init(**arguments):
        if refusals:
            raise RuntimeError(refusals.pop())
        return begin(**arguments)

    monkeypatch.setattr(wandb, "init", init)
    run_dir = store_run(tmp_path / "run")
    writer = logger(run_dir, mode="offline", upload_model=False)
    writer.write(record(1))
    writer.close(DONE)
    assert refusals == []
    assert [row[EPOCH_TAG] for row in history(run_dir)] == [1]
