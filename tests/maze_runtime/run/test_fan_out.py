"""Loggers stand apart from each other."""

from types import SimpleNamespace

import numpy as np

from maze_kernel.contracts.logger import EpochRecord, Progress
from maze_runtime.run.fan_out import FanOut


class Keeper:
    """Keeps what it was given."""

    def __init__(self):
        self.records, self.messages = [], []

    def write(self, record):
        self.records.append(record)

    def message(self, text):
        self.messages.append(text)


class Falsifier:
    """Changes what it was given."""

    def write(self, record):
        record.train["reward"] = 0.0
        del record.train["loss"]
        record.evaluation["extra"] = 1.0


class Sorter:
    """Changes an array in place."""

    def write(self, record):
        record.train["returns"].sort()


def test_a_logger_cannot_change_what_others_write():
    returns = np.array([3.0, 1.0, 2.0])
    record = EpochRecord(
        epoch=1, env_steps=10, wall_seconds=1.0, train={"reward": 5.0, "loss": 0.5, "returns": returns}, evaluation={}
    )
    keeper = Keeper()
    loggers = FanOut([Falsifier(), Sorter(), keeper])
    loggers.write(record)
    assert dict(keeper.records[0].train, returns=None) == {"reward": 5.0, "loss": 0.5, "returns": None}
    assert keeper.records[0].evaluation == {} == record.evaluation
    np.testing.assert_array_equal(keeper.records[0].train["returns"], [3.0, 1.0, 2.0])
    assert loggers.failures == {"Sorter": 1}
    assert returns.flags.writeable


def test_a_new_phase_is_passed_on_however_soon_it_begins(monkeypatch):
    now = [5.0]
    monkeypatch.setattr("maze_runtime.run.fan_out.time", SimpleNamespace(monotonic=lambda: now[0]))
    phases = []
    loggers = FanOut([SimpleNamespace(write=None, progress=lambda progress: phases.append(progress.phase))])
    for phase in ("rollout", "rollout", "compile", "evaluate", "evaluate"):
        loggers.progress(Progress(env_steps=0, fraction=0.5, phase=phase))
    assert phases == ["rollout", "compile", "evaluate"]
    now[0] += 0.2
    loggers.progress(Progress(env_steps=0, fraction=0.5, phase="rollout"))
    assert phases[3:] == ["rollout"]


class OnStderr(Keeper):
    is_on_stderr = True


def test_what_is_warned_of_is_no_message_where_python_shows_it(tmp_path):
    keeper, shows = Keeper(), OnStderr()
    loggers = FanOut([shows, keeper], tmp_path / "log.txt")
    loggers.message("all is well")
    loggers.warning("a worker died")
    assert keeper.messages == ["all is well", "warning: a worker died"]
    assert shows.messages == ["all is well"]
    assert [line.split(" ", 1)[1] for line in (tmp_path / "log.txt").read_text().splitlines()] == keeper.messages
