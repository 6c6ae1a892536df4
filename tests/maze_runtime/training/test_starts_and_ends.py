"""Runs that are killed before their first checkpoint, starts that fail, and runs that are replaced."""

import errno
import fcntl
import itertools
import json
import math
import os
import signal
import socket
import subprocess
import sys

import pytest

from maze_kernel.errors import CheckpointError, EnvError, MazeWarning, RequestError
from maze_runtime.run.directory import open_run
from maze_runtime.run.folder_lock import FolderLock
from maze_runtime.run.storage import Storage
from maze_runtime.training import training_run
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.train import train
from maze_runtime.training.training_run import TrainingRun

OPERATIONS = ("make_directory", "write_bytes", "rename", "sync_directory", "symlink", "remove")


class Killed(BaseException):
    """What a SIGKILL is to the code under test: nothing catches it."""


@pytest.fixture
def kill_at(monkeypatch):
    """`kill_at(n)`: the n-th call that reaches the disk is the last one; half a file may stand already.

    Returns the arguments of the calls so far.
    """

    def install(n=math.inf):
        calls = []
        for name in OPERATIONS:
            original = getattr(Storage, name)

            def call(self, *arguments, _name=name, _original=original):
                number = len(calls)
                calls.append(arguments)
                if number == n and _name == "write_bytes":
                    arguments[0].write_bytes(arguments[1][: len(arguments[1]) // 2])
                if number >= n:
                    raise Killed
                return _original(self, *arguments)

            monkeypatch.setattr(Storage, name, call)
        return calls

    yield install
    monkeypatch.undo()


def result_of(run_dir, epoch):
    folder = run_dir / "checkpoints" / f"epoch-{epoch:06d}"
    state = json.loads((folder / "state.json").read_text())
    state["state"]["loop"]["wall_seconds"] = 0
    weights = [(folder / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")]
    return weights, state, CheckpointStore(run_dir).pointed("best"), CheckpointStore(run_dir).pointed("last")


# The first epoch stays the best one, so its weights are written before the first checkpoint.
CHANGES = ("trainer.n_epochs=4", 'evaluation.metric="-train_ToyEvents/epoch"')


def test_a_run_killed_before_its_first_checkpoint_starts_again_in_its_folder(toy, kill_at, monkeypatch):
    whole = result_of(toy.train("whole", *CHANGES).run_dir, 4)
    n_without, reasons = 0, set()
    for n in itertools.count():
        name = f"killed-{n}"
        kill_at(n)
        try:
            toy.train(name, *CHANGES)
            break
        except Killed:
            monkeypatch.undo()
        run_dir = toy.folder / name
        if any(entry.name == "checkpoints" for entry in run_dir.iterdir()) and CheckpointStore(run_dir).pointed("last"):
            break
        n_without += 1
        resumed = train(toy.load(CHANGES), toy.kernel, resume=run_dir)
        assert result_of(run_dir, 4) == whole, f"killed at call {n}"
        assert resumed.epochs == 4
        assert (run_dir / "experiment.toml").is_file()
        assert not list(run_dir.rglob(".tmp-*"))
        epochs = [line.split(",")[0] for line in (run_dir / "statistics" / "train.csv").read_text().splitlines()[1:]]
        assert epochs == sorted(epochs), "epochs stand twice in the statistics"
        reasons |= {line.split(" ", 1)[1] for line in (run_dir / "log.txt").read_text().splitlines() if " " in line}
    assert n_without > 15, "too few kills to prove anything"
    assert any("stopped before it began" in reason for reason in reasons)
    assert any("no checkpoint yet" in reason for reason in reasons)


@pytest.mark.slow
def test_a_run_killed_within_a_later_save_has_all_that_goes_with_its_checkpoint(toy, kill_at, monkeypatch):
    changes = (*CHANGES, "checkpoint.every_epochs=1", "trainer.n_epochs=3")
    tables = {"wrappers": [{"use": "observation-normalization", "statistics": "running"}]}
    calls = kill_at()
    whole = toy.train("whole", *changes, tables=tables).run_dir
    monkeypatch.undo()
    stale, second = 0, [arguments[-1] for arguments in calls].index(whole / "checkpoints" / "epoch-000002")
    for n in range(second + 1, len(calls)):
        kill_at(n)
        with pytest.raises(Killed):
            toy.train(f"killed-{n}", *changes, tables=tables)
        monkeypatch.undo()
        run_dir = toy.folder / f"killed-{n}"
        is_last = 3 in CheckpointStore(run_dir).epochs()
        stale += is_last and CheckpointStore(run_dir).pointed("last") != 3
        stale += is_last and normalization(run_dir) != normalization(whole)
        toy.resume(run_dir.name)
        assert result_of(run_dir, 3) == result_of(whole, 3), f"killed at call {n}"
        assert normalization(run_dir) == normalization(whole), f"killed at call {n}"
    assert stale > 3, "too few kills to prove anything"


def normalization(run_dir):
    return (run_dir / "normalization.json").read_text()


def test_a_run_without_a_whole_checkpoint_says_which_it_passed_over(toy):
    whole = result_of(toy.train("whole", *CHANGES).run_dir, 4)
    run_dir = toy.train("a", "trainer.n_epochs=2", CHANGES[1]).run_dir
    for file in run_dir.glob("checkpoints/epoch-*/model.safetensors"):
        file.write_bytes(b"")
    toy.resume("a", CHANGES[0])
    log = (run_dir / "log.txt").read_text()
    assert "skipped checkpoint epoch-000002" in log
    assert "no whole checkpoint: training starts at the beginning" in log
    assert result_of(run_dir, 4) == whole


def test_a_resumed_run_whose_best_checkpoint_is_damaged_says_so_and_has_another(toy):
    run_dir = toy.train("a", "trainer.n_epochs=4", "checkpoint.every_epochs=1", "checkpoint.keep=9").run_dir
    store = CheckpointStore(run_dir)
    loop = store.load(4).loop
    damaged = store.pointed("best")
    for epoch in range(damaged, 4):  # what was the best of all cannot be the last one here
        (run_dir / f"checkpoints/epoch-{epoch:06d}/model.safetensors").write_bytes(b"")
    assert damaged == loop.best_epoch < 4
    toy.resume("a", "trainer.n_epochs=5")
    log = (run_dir / "log.txt").read_text()
    assert f"the best checkpoint is lost: {store.folder}/epoch-{damaged:06d}" in log
    assert store.load_named("best").epoch == store.pointed("best") != damaged


def test_a_run_whose_checkpoint_cannot_be_restored_is_left_as_it_is(toy, monkeypatch):
    run_dir = toy.train("a", "trainer.n_epochs=2", CHANGES[1]).run_dir
    record = (run_dir / "run.json").read_bytes()

    def refuse(*_arguments):
        raise CheckpointError("the checkpoint does not fit")

    monkeypatch.setattr(training_run, "restore", refuse)
    with pytest.raises(CheckpointError, match="does not fit"):
        toy.resume("a", CHANGES[0])
    assert (run_dir / "run.json").read_bytes() == record
    monkeypatch.undo()
    toy.resume("a", CHANGES[0])
    (resumption,) = json.loads((run_dir / "run.json").read_text())["resumed"]
    assert resumption == {"epoch": 2, "overrides": [CHANGES[0]]}


def test_a_folder_where_a_start_was_killed_takes_a_new_run(toy):
    (toy.folder / "a").mkdir()
    (toy.folder / "a" / ".tmp-run.json-17").write_text("{")
    with pytest.raises(RequestError, match="no run directory") as caught:
        toy.resume("a")
    assert "begin with: maze train FILE --out" in caught.value.help
    run_dir = toy.train("a", "trainer.n_epochs=1").run_dir
    assert not (run_dir / ".tmp-run.json-17").exists()


def test_a_start_that_fails_leaves_no_directory_in_the_way(toy, toy_module, monkeypatch):
    def refuse(*_arguments):
        raise EnvError("there is no window to draw in")

    with monkeypatch.context() as patch:
        patch.setattr(toy_module.ToyTrainer, "__init__", refuse)
        with pytest.raises(EnvError):
            toy.train("a", "trainer.n_epochs=1")
    assert not (toy.folder / "a").exists()
    with pytest.raises(RequestError, match="no statistic is called"):
        toy.train("a", 'evaluation.metric="BaseEnvEvents/reward/meen"')
    toy.train("a", "trainer.n_epochs=1")
    with monkeypatch.context() as patch:
        patch.setattr(toy_module.ToyTrainer, "__init__", refuse)
        with pytest.raises(EnvError):
            toy.resume("a", "trainer.n_epochs=2")
    assert CheckpointStore(toy.folder / "a").pointed("last") == 1


@pytest.fixture
def handlers():
    """`handlers()`: what handles each signal that ends training; nothing does at first but Ctrl-C.

    A shell starts background jobs with Ctrl-C ignored.
    """
    at_first = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in at_first.items()}
    yield lambda: [signal.getsignal(number) for number in at_first]
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("place", ["named", "built"])
def test_a_start_that_a_signal_ends_leaves_no_directory_in_the_way(toy, toy_module, monkeypatch, handlers, name, place):
    number, before, paths = getattr(signal, name), handlers(), []

    def named(path):
        paths.append(path)
        if place == "named":
            signal.raise_signal(number)

    monkeypatch.setattr(toy_module.ToyTrainer, "__init__", lambda *_arguments: signal.raise_signal(number))
    with pytest.raises(KeyboardInterrupt):
        train(toy.load(["trainer.n_epochs=1"]), toy.kernel, run_dir=toy.folder / "a", on_run_dir=named)
    assert paths == [toy.folder / "a"]
    assert not paths[0].exists()
    assert handlers() == before


def test_a_start_leaves_a_signal_to_what_handles_it_already(toy, toy_module, monkeypatch, handlers):
    seen = []
    begin = toy_module.ToyTrainer.__init__

    def begin_and_raise(*arguments, **options):
        begin(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(toy_module.ToyTrainer, "__init__", begin_and_raise)
    signal.signal(signal.SIGTERM, lambda *arguments: seen.append(arguments))
    before = handlers()
    assert toy.train("a", "trainer.n_epochs=1").outcome.status == "done"
    assert len(seen) == 1
    assert handlers() == before


def test_a_start_that_fails_leaves_its_name_in_runs_only_where_other_runs_have_it(toy, toy_module, monkeypatch):
    def refuse(*_arguments):
        raise EnvError("there is no window to draw in")

    def start():
        with pytest.raises(EnvError):
            train(loaded, toy.kernel)

    loaded = toy.load(["trainer.n_epochs=1"])
    of_name = toy.folder / "runs" / loaded.experiment.name
    monkeypatch.chdir(toy.folder)
    monkeypatch.setattr(toy_module.ToyTrainer, "__init__", refuse)
    start()
    assert not of_name.exists()
    (of_name / "other").mkdir(parents=True)
    start()
    assert [own.name for own in of_name.iterdir()] == ["other"]


def moves_at(epoch, path, back_at=None):
    """A callback that moves the run directory away, and back."""
    away = path.with_name("moved")

    def move(run):
        if run.epoch == epoch:
            path.rename(away)
        elif run.epoch == back_at:
            away.rename(path)

    return move


@pytest.mark.filterwarnings("ignore:records of the run are incomplete")
def test_a_run_that_is_moved_away_while_it_is_trained_fails_by_name_and_leaves_no_half_of_one(toy):
    path, loaded = toy.folder / "a", toy.load(["trainer.n_epochs=4", "checkpoint.every_epochs=1"])
    with pytest.raises(CheckpointError, match="it was moved or deleted while it was trained") as caught:
        train(loaded, toy.kernel, run_dir=path, callbacks=[moves_at(2, path)])
    assert str(path) in caught.value.what
    assert f"maze train --resume {path}" in caught.value.help
    assert not (path / "checkpoints").exists()
    (toy.folder / "moved").rename(path)
    assert toy.resume("a").epochs == 4


@pytest.mark.filterwarnings("ignore:records of the run are incomplete")
def test_a_run_that_is_back_before_it_ends_is_whole(toy):
    path, loaded = toy.folder / "a", toy.load(["trainer.n_epochs=4", "checkpoint.every_epochs=1"])
    result = train(loaded, toy.kernel, run_dir=path, callbacks=[moves_at(2, path, back_at=3)], verbosity=-1)
    assert result.outcome.status == "done"
    assert CheckpointStore(path).pointed("last") == 4


def test_a_run_may_be_replaced_and_nothing_else(toy):
    (toy.folder / "file").write_text("precious")
    for overwrite in (False, True):
        with pytest.raises(RequestError, match="is a file"):
            toy.train("file", overwrite=overwrite)
    first = result_of(toy.train("a", "trainer.n_epochs=2").run_dir, 2)
    with pytest.raises(RequestError, match="not empty") as caught:
        toy.train("a", "trainer.n_epochs=1")
    assert "--overwrite" in caught.value.help
    assert result_of(toy.folder / "a", 2) == first
    toy.train("a", "trainer.n_epochs=1", "seed=4", overwrite=True)
    assert CheckpointStore(toy.folder / "a").epochs() == [1]
    other = toy.folder / "b"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    with pytest.raises(RequestError, match="is not overwritten"):
        toy.train("b", overwrite=True)
    assert (other / "thesis.tex").read_text() == "precious"
    with pytest.raises(RequestError, match="cannot replace"):
        toy.train("a", overwrite=True, tables={"initialize_from": str(toy.folder / "a")})
    assert CheckpointStore(toy.folder / "a").epochs() == [1]
    with pytest.raises(RequestError, match="names no run"):
        train(toy.load(), toy.kernel, overwrite=True)
    with pytest.raises(RequestError, match="stays in its directory"):
        train(toy.load(), toy.kernel, resume=toy.folder / "a", overwrite=True)


CLIPPED = {"wrappers": [{"use": "reward-clipping"}]}


def _forget(run_dir, *path):
    """Make a run one of a version that did not know an option yet."""
    record = json.loads((run_dir / "run.json").read_text())
    table = record["experiment"]
    for key in path[:-1]:
        table = table[key]
    del table[path[-1]]
    (run_dir / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    "path", [("trainer", "nan_at_epoch"), ("wrappers", 0, "min_val"), ("evaluation", "deterministic"), ("vector",)]
)
@pytest.mark.parametrize("reopened", [True, False], ids=["by the run", "by the experiment"])
def test_a_run_of_a_version_that_lacks_an_option_goes_on_with_its_default(toy, path, reopened):
    tables = {**CLIPPED, "vector": {}}
    toy.train("a", "trainer.n_epochs=1", tables=tables)
    _forget(toy.folder / "a", *path)
    if reopened:
        resumed = toy.resume("a", "trainer.n_epochs=2")
    else:
        resumed = train(toy.load(["trainer.n_epochs=2"], **tables), toy.kernel, resume=toy.folder / "a")
    assert resumed.epochs == 2


@pytest.mark.parametrize(
    ("change", "path"),
    [("trainer.nan_at_epoch=7", ("trainer", "nan_at_epoch")), ("wrappers.0.min_val=-2.0", ("wrappers", 0, "min_val"))],
)
def test_an_option_that_a_run_lacks_may_not_have_another_value_than_its_default(toy, change, path):
    toy.train("a", "trainer.n_epochs=1", tables=CLIPPED)
    _forget(toy.folder / "a", *path)
    with pytest.raises(RequestError) as refused:
        train(toy.load(["trainer.n_epochs=2", change], **CLIPPED), toy.kernel, resume=toy.folder / "a")
    assert refused.value.received == ".".join(map(str, path))


# One process at a time


def test_a_run_that_is_trained_is_neither_resumed_nor_replaced_by_another_process(toy):
    path = toy.folder / "a"
    with TrainingRun(toy.load(["trainer.n_epochs=3"]), toy.kernel, run_dir=path, verbosity=-1) as run:
        run.advance()
        before = sorted(path.rglob("*"))
        for again in (lambda: toy.resume("a"), lambda: toy.train("a", overwrite=True)):
            with pytest.raises(RequestError, match=r"the run in .* is being trained already") as caught:
                again()
            assert caught.value.received == f"process {os.getpid()} on {socket.gethostname()}"
        assert sorted(path.rglob("*")) == before
        assert open_run(path).name == "toy"  # who reads asks for no lock
        while run.advance() is None:
            pass
    assert toy.resume("a", "trainer.n_epochs=4").epochs == 4
    toy.train("a", overwrite=True)


def test_a_folder_that_is_no_run_gets_no_lock(toy):
    (toy.folder / "a").mkdir()
    (toy.folder / "a" / "thesis.tex").write_text("precious")
    for overwrite in (False, True):
        with pytest.raises(RequestError):
            toy.train("a", overwrite=overwrite)
    assert [entry.name for entry in (toy.folder / "a").iterdir()] == ["thesis.tex"]


def test_a_child_that_outlives_its_parent_keeps_no_lock(tmp_path):
    code = f"""
import os, pathlib, time
from maze_runtime.run.folder_lock import FolderLock
lock = FolderLock(pathlib.Path({str(tmp_path)!r}), "run")
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        with pytest.raises(RequestError, match="being trained already") as caught:
            FolderLock(tmp_path, "run")
        assert f"process {parent.pid} " in caught.value.received
        parent.kill()
        parent.wait()
    os.kill(child, 0)  # is there
    FolderLock(tmp_path, "run").release()
    os.kill(child, signal.SIGKILL)


def test_where_there_are_no_locks_training_goes_on_with_a_warning(toy, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(MazeWarning, match="cannot be locked .*No locks available.*see to it"):
        assert toy.train("a", "trainer.n_epochs=1").epochs == 1


def test_a_resume_says_which_settings_are_others_than_before(toy):
    run_dir = toy.train("a", "trainer.n_epochs=2", "checkpoint.every_epochs=7").run_dir
    train(toy.load(["trainer.n_epochs=3"]), toy.kernel, resume=run_dir)  # its file knows nothing of the first overrides
    (note,) = (line for line in (run_dir / "log.txt").read_text().splitlines() if "other settings than before" in line)
    assert "checkpoint.every_epochs (was 7, is 2)" in note
    assert "trainer.n_epochs (was 2, is 3)" in note
    toy.resume("a", "trainer.n_epochs=3")
    assert (run_dir / "log.txt").read_text().count("other settings than before") == 1
