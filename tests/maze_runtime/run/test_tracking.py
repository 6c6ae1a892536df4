import csv
import json
import threading
import time

import numpy as np
import pytest

from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome
from maze_kernel.errors import MazeWarning
from maze_runtime.run.fan_out import FanOut
from maze_runtime.run.tracked_run import EPOCH_TAG, TrackedEpoch, best_model, flatten, missed_epochs, run_facts
from maze_runtime.run.tracking import Opened, TrackerError, Tracking

DONE = Outcome(status="done", reason="all epochs done")
DEADLINE = 60.0
EXPERIMENT = {"trainer": {"use": "toy", "lr": 0.5, "hidden": [64, 64]}, "wrappers": [{"use": "a", "scale": 2.0}]}


class Memory:
    """A tracker whose store outlives a run."""

    def __init__(self, says_epoch=True):
        self.sent, self.ids, self.outcomes, self.model = [], [], [], None
        self.says_epoch = says_epoch

    def open(self, run, run_id):
        self.run = run
        self.ids.append(run_id)
        last = max((epoch.epoch for epoch in self.sent), default=0)
        return Opened(epoch=last if self.says_epoch else None, url="memory://here")

    def send(self, epoch):
        self.sent.append(epoch)

    def finish(self, outcome, model):
        self.outcomes.append(outcome)
        self.model = model

    @property
    def epochs(self):
        return [epoch.epoch for epoch in self.sent]


def waits(condition):
    until = time.monotonic() + DEADLINE
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


@pytest.fixture
def run_dir(tmp_path):
    record = {"format": 1, "name": "toy", "overrides": ["trainer.lr=0.5"], "experiment": EXPERIMENT}
    record |= {"packages": {"torch": "2.13"}, "python": "3.11.1"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    return tmp_path


def tracking(run_dir, tracker, resumed_epoch=0, timeout_seconds=DEADLINE, **options):
    context = LoggerContext(run_dir=run_dir, name="toy", n_epochs=9, max_env_steps=0, resumed_epoch=resumed_epoch)
    options = {"place": "memory", "upload_model": True, **options}
    return Tracking(context, tracker, timeout_seconds=timeout_seconds, **options)


def record(epoch, value=None):
    train = {"A/x": float(epoch if value is None else value)}
    evaluation = {"A/x": -1.0} if epoch % 2 == 0 else {}
    return EpochRecord(epoch=epoch, env_steps=10 * epoch, wall_seconds=1.5, train=train, evaluation=evaluation)


def note_csv(run_dir, epochs, folder="statistics"):
    """What the `csv` logger wrote."""
    (run_dir / folder).mkdir(exist_ok=True)
    with open(run_dir / folder / "train.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("epoch", "env_steps", "wall_seconds", "tag", "value"))
        writer.writerows((epoch, 10 * epoch, "1.500", "A/x", float(epoch)) for epoch in epochs)


def test_a_run_is_opened_once_and_told_epoch_by_epoch(run_dir):
    tracker = Memory()
    logger = tracking(run_dir, tracker)
    for epoch in (1, 2):
        logger.write(record(epoch))
    logger.close(DONE)
    assert tracker.epochs == [1, 2]
    assert tracker.sent[1].numbers == {EPOCH_TAG: 2.0, "run/wall_seconds": 1.5, "train_A/x": 2.0, "eval_A/x": -1.0}
    assert tracker.sent[1].env_steps == 20
    assert tracker.outcomes == [DONE]
    (entry,) = json.loads((run_dir / "tracker.json").read_text())["runs"].values()
    assert entry == {"id": tracker.ids[0], "epoch": 2, "url": "memory://here"}


@pytest.mark.parametrize("says_epoch", [True, False])
def test_a_resume_goes_on_with_the_same_run_and_leaves_each_epoch_once(run_dir, says_epoch):
    tracker = Memory(says_epoch)
    killed = tracking(run_dir, tracker)
    for epoch in range(1, 6):
        killed.write(record(epoch))
    file = run_dir / "tracker.json"
    waits(lambda: file.exists() and json.loads(file.read_text())["runs"]["memory"].get("epoch") == 5)
    for resumed in (3, 0):
        logger = tracking(run_dir, tracker, resumed)
        for epoch in range(resumed + 1, 8):
            logger.write(record(epoch, 100.0))
        logger.close(DONE)
    assert tracker.epochs == [1, 2, 3, 4, 5, 6, 7]
    assert [epoch.numbers["train_A/x"] for epoch in tracker.sent] == [1.0, 2.0, 3.0, 4.0, 5.0, 100.0, 100.0]
    assert len(set(tracker.ids)) == 1


@pytest.mark.parametrize("folder", ["statistics", "numbers"])
def test_epochs_before_a_resume_that_the_tracker_lacks_are_read_from_the_statistics(run_dir, folder):
    stored = json.loads((run_dir / "run.json").read_text())
    stored["experiment"]["loggers"] = [{"use": "csv", "folder": folder}]
    (run_dir / "run.json").write_text(json.dumps(stored))
    note_csv(run_dir, range(1, 9), folder)
    tracker = Memory()
    tracker.sent.append(TrackedEpoch.of(record(1)))
    logger = tracking(run_dir, tracker, resumed_epoch=4)
    logger.write(record(5))
    logger.close(DONE)
    assert tracker.epochs == [1, 2, 3, 4, 5]
    assert tracker.sent[2].numbers == {EPOCH_TAG: 3.0, "run/wall_seconds": 1.5, "train_A/x": 3.0}
    assert tracker.sent[2].env_steps == 30


def test_a_finished_run_is_sent_by_resuming_it(run_dir):
    note_csv(run_dir, [1, 2])
    tracker = Memory()
    tracking(run_dir, tracker, resumed_epoch=2).close(DONE)
    assert tracker.epochs == [1, 2]
    assert tracker.outcomes == [DONE]


def test_another_place_is_another_run(run_dir):
    first, second = Memory(), Memory()
    for place, tracker in (("one", first), ("two", second)):
        logger = tracking(run_dir, tracker, place=place)
        logger.write(record(1))
        logger.close(DONE)
    assert first.ids != second.ids
    assert (first.epochs, second.epochs) == ([1], [1])
    assert set(json.loads((run_dir / "tracker.json").read_text())["runs"]) == {"one", "two"}


def test_a_run_that_never_trained_is_not_told(run_dir):
    tracker = Memory()
    tracking(run_dir, tracker).close(Outcome(status="failed", reason="before the first epoch"))
    assert not tracker.ids
    assert not (run_dir / "tracker.json").exists()


class Broken(Memory):
    def __init__(self, where):
        super().__init__()
        self.where = where

    def open(self, run, run_id):
        return self._or_fail("open") or super().open(run, run_id)

    def send(self, epoch):
        self._or_fail("send")
        super().send(epoch)

    def finish(self, outcome, model):
        self._or_fail("finish")

    def _or_fail(self, where):
        if self.where == where:
            raise ConnectionError("no route\nand a long page of HTML")


@pytest.mark.parametrize("where", ["open", "send", "finish"])
def test_a_tracker_that_fails_is_named_once_and_left_out(run_dir, where):
    class TrackerLogger:
        def __init__(self):
            self.tracking = tracking(run_dir, Broken(where))
            self.write, self.close = self.tracking.write, self.tracking.close

    class Lines:
        def __init__(self):
            self.written, self.messages = [], []
            self.write, self.message = self.written.append, self.messages.append

    lines = Lines()
    loggers = FanOut([TrackerLogger(), lines], run_dir / "log.txt")
    for epoch in range(1, 50):
        loggers.write(record(epoch))
        time.sleep(0.005)
    loggers.close(DONE)
    assert [epoch.epoch for epoch in lines.written] == [*range(1, 50)]
    (message,) = lines.messages
    assert "TrackerLogger failed" in message
    assert "no route" in message
    assert "HTML" not in message
    assert f"maze train --resume {run_dir}" in message


class Hanging(Memory):
    def __init__(self):
        super().__init__()
        self.let_go = threading.Event()

    def send(self, epoch):
        if epoch.epoch == 2:
            self.let_go.wait(DEADLINE)
        super().send(epoch)


def test_a_tracker_that_hangs_stops_neither_training_nor_its_end(run_dir):
    tracker = Hanging()
    logger = tracking(run_dir, tracker, timeout_seconds=0.2)
    for epoch in (1, 2, 3):
        logger.write(record(epoch))
    with pytest.raises(TrackerError, match=r"has not answered for 0\.2 seconds"):
        logger.close(DONE)
    thread = logger._thread
    tracker.let_go.set()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert tracker.epochs == [1, 2]  # the call that hung came back, and nothing followed it
    assert not tracker.outcomes


def test_statistics_are_sorted_by_what_they_are():
    class Figure:
        def savefig(self, stream, format):
            stream.write(f"a {format}".encode())

    train = {
        "n": np.float32(0.5),
        "nan": float("nan"),
        "scalar": np.array(3),
        "array": np.array([0.0, np.nan, 1.0, 1.0]),
        "nothing": np.array([np.inf]),
        "text": "words",
        "figure": Figure(),
    }
    epoch = TrackedEpoch.of(EpochRecord(epoch=1, env_steps=7, wall_seconds=2.0, train=train))
    assert epoch.numbers["train_n"] == 0.5
    assert epoch.numbers["train_scalar"] == 3.0
    assert np.isnan(epoch.numbers["train_nan"])
    counts, edges = epoch.histograms["train_array"]
    assert (counts.sum(), counts[0], counts[-1], len(edges)) == (3, 1, 2, len(counts) + 1)
    assert "train_nothing" not in epoch.histograms
    assert epoch.texts == {"train_text": "words"}
    assert epoch.figures == {"train_figure": b"a png"}


def test_facts_are_those_of_run_json(run_dir):
    (run_dir / "figures").mkdir()
    (run_dir / "figures" / "policy.svg").write_text("<svg/>")
    facts = run_facts(run_dir)
    assert facts.parameters == {
        "trainer.use": "toy",
        "trainer.lr": 0.5,
        "trainer.hidden": "[64, 64]",
        "wrappers.0.use": "a",
        "wrappers.0.scale": 2.0,
    }
    assert facts.overrides == ("trainer.lr=0.5",)
    assert facts.versions == {"python": "3.11.1", "torch": "2.13"}
    assert [path.name for path in facts.pictures] == ["policy.svg"]
    assert flatten({}) == {}


def test_epochs_are_the_axis_of_a_trainer_that_takes_no_environment_steps():
    assert TrackedEpoch(epoch=3, env_steps=30).step == 30
    assert TrackedEpoch(epoch=3, env_steps=0).step == 3


def test_no_statistics_no_missed_epochs(run_dir):
    assert missed_epochs(run_facts(run_dir), 0, 9) == []


def test_a_damaged_row_of_a_missed_epoch_is_left_out(run_dir):
    folder = run_dir / "statistics"
    folder.mkdir(exist_ok=True)
    rows = ["epoch,env_steps,wall_seconds,tag,value", "1,10,0.5,x,1.0", "1,10,0.5,da\0maged", "2,20,1.0,x,2.0", ""]
    (folder / "train.csv").write_text("\n".join(rows))
    with pytest.warns(MazeWarning, match=r"train\.csv: left out 1 damaged row in line 3"):
        missed = missed_epochs(run_facts(run_dir), 0, 9)
    assert [(epoch.epoch, epoch.numbers["train_x"]) for epoch in missed] == [(1, 1.0), (2, 2.0)]


def test_the_best_model_comes_with_what_plays_it(run_dir):
    assert best_model(run_dir) == {}
    folder = run_dir / "checkpoints" / "epoch-000003"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (run_dir / "checkpoints" / "best").symlink_to("epoch-000003")
    files = best_model(run_dir)
    assert set(files) == {"run.json", "checkpoints/best/model.safetensors"}
    assert files["checkpoints/best/model.safetensors"].read_bytes() == b"weights"
    for upload, expected in ((True, files), (False, {})):
        tracker = Memory()
        logger = tracking(run_dir, tracker, upload_model=upload, place=str(upload))
        logger.write(record(1))
        logger.close(DONE)
        assert tracker.model == expected
