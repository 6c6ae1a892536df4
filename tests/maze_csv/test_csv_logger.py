import csv
import os

import numpy as np
import pytest

from maze_csv.logger import COLUMNS, CsvLogger
from maze_csv.options import CsvOptions
from maze_kernel.contracts.logger import EpochRecord, LoggerContext
from maze_kernel.errors import MazeWarning
from maze_testing.loggers import check_logger


def logger(run_dir, resumed_epoch=0, **options):
    context = LoggerContext(run_dir=run_dir, name="t", n_epochs=9, max_env_steps=0, resumed_epoch=resumed_epoch)
    return CsvLogger(context, CsvOptions(**options))


def record(epoch, train, evaluation=()):
    return EpochRecord(epoch=epoch, env_steps=10 * epoch, wall_seconds=1.5, train=train, evaluation=dict(evaluation))


def read(path):
    with open(path, newline="") as file:
        return [tuple(row) for row in csv.reader(file)]


def test_training_and_evaluation_have_a_file_each(tmp_path):
    writer = logger(tmp_path)
    writer.write(record(1, {"A/x": 0.1, "A/histogram": np.arange(3), "A/note": "text"}, {"A/x": 2}))
    assert read(tmp_path / "statistics/train.csv") == [COLUMNS, ("1", "10", "1.500", "A/x", "0.1")]
    assert read(tmp_path / "statistics/eval.csv") == [COLUMNS, ("1", "10", "1.500", "A/x", "2")]


def test_a_statistic_may_appear_later(tmp_path):
    writer = logger(tmp_path)
    writer.write(record(1, {"A/x": 1.0}))
    writer.write(record(2, {"A/x": 1.0, "B/y": np.float32(0.5)}))
    assert [row[3:] for row in read(tmp_path / "statistics/train.csv")[1:]] == [
        ("A/x", "1.0"),
        ("A/x", "1.0"),
        ("B/y", "0.5"),
    ]


def test_a_resume_drops_later_epochs_and_half_rows(tmp_path):
    writer = logger(tmp_path)
    for epoch in range(1, 6):
        writer.write(record(epoch, {"A/x": float(epoch)}))
    path = tmp_path / "statistics/train.csv"
    path.write_text(path.read_text() + "6,60,1.5")
    writer = logger(tmp_path, resumed_epoch=3)
    writer.write(record(4, {"A/x": 104.0}))
    assert [row[4] for row in read(path)[1:]] == ["1.0", "2.0", "3.0", "104.0"]


@pytest.mark.parametrize(
    "damage", [b"\0" * 200_000, b'2,20,1.5,"A/x', b"2,20,1.5,A/\xff,1.0", b"2,20,1.5,A/\0\0,1.0", b"nonsense"]
)
def test_a_resume_drops_damaged_rows_alone_and_keeps_the_file_that_has_them(tmp_path, damage):
    writer = logger(tmp_path)
    for epoch in range(1, 4):
        writer.write(record(epoch, {"A/x,y": float(epoch)}))
    path = tmp_path / "statistics/train.csv"
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*rows[:2], damage + b"\n", *rows[2:], b"4,40,1.5"]))
    for name in ("train.csv.damaged", "train.csv.damaged-2"):
        before = path.read_bytes()
        with pytest.warns(MazeWarning, match=rf"train\.csv: dropped 1 damaged row; the file as it was is {name}$"):
            logger(tmp_path, resumed_epoch=3)
        assert path.read_bytes() == b"".join(rows)
        assert path.with_name(name).read_bytes() == before
        path.write_bytes(b"".join([*rows, b"5,50\0\0\0"]))


def test_a_resume_says_nothing_where_nothing_is_damaged(tmp_path, recwarn):
    logger(tmp_path).write(record(1, {"A/x": 1.0, "B/two\nlines": 2.0}))
    logger(tmp_path, resumed_epoch=1)
    assert [row[3] for row in read(tmp_path / "statistics/train.csv")] == ["tag", "A/x", "B/two lines"]
    assert not recwarn.list
    assert [path.name for path in (tmp_path / "statistics").iterdir()] == ["train.csv"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path, make):
    (tmp_path / "statistics").mkdir()
    make(tmp_path / "statistics/train.csv")
    with pytest.raises(OSError, match=r"train\.csv is no regular file"):
        logger(tmp_path, resumed_epoch=1)


def test_a_resume_leaves_other_files_of_the_folder_alone(tmp_path):
    logger(tmp_path).write(record(1, {"A/x": 1.0}))
    notes = tmp_path / "statistics/my_notes.csv"
    notes.write_text("x,y\n1,2\n")
    logger(tmp_path, resumed_epoch=1)
    assert notes.read_text() == "x,y\n1,2\n"


def test_the_contract_of_loggers_is_kept(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    check_logger(lambda context: CsvLogger(context, CsvOptions()), run_dir)


def test_the_folder_stays_inside_the_run():
    with pytest.raises(ValueError, match="folder"):
        CsvOptions(folder="../elsewhere")
