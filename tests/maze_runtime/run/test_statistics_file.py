"""Statistics files are read as far as they are whole, and what is left out is said."""

import os

import pytest

from maze_kernel.errors import MazeWarning
from maze_runtime.run.statistics_file import statistics_rows

HEADER = b"epoch,env_steps,wall_seconds,tag,value\n"
ROWS = b'1,10,0.5,A/x,1.0\n1,10,0.5,"A/y,z",2\n'
LATER = b"2,20,1.0,A/x,nan\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "eval.csv"


@pytest.mark.parametrize("rest", [b"", b"2,20,1.0,A/x,3", b"\n"])
def test_whole_rows_are_read_without_a_word(file, rest):
    file.write_bytes(HEADER + ROWS + rest)
    assert list(statistics_rows(file)) == [(1, 10, 0.5, "A/x", 1.0), (1, 10, 0.5, "A/y,z", 2.0)]
    file.write_bytes((HEADER + ROWS + rest).replace(b"\n", b"\r\n"))
    assert [row.value for row in statistics_rows(file)] == [1.0, 2.0]


@pytest.mark.parametrize(
    "damage",
    [
        b'1,10,0.5,"A/w',
        b"1,10,0.5,A/w",
        b"\0" * 200_000,
        b"1,10,0.5,A/\0\0,7.5",
        b'1,10,0.5,"' + b"x" * 200_000 + b'",1.0',
        b"1,10,0.5,A/\xff,1.0",
        b"99999999999999999999999,10,0.5,A/x,1.0",
        b"1,-10,0.5,A/x,1.0",
        b"nonsense",
    ],
)
def test_a_damaged_row_takes_no_other_along(file, damage):
    file.write_bytes(HEADER + ROWS + damage + b"\n" + LATER)
    with pytest.warns(MazeWarning, match=r"eval\.csv: left out 1 damaged row in line 4$"):
        assert [row.epoch for row in statistics_rows(file)] == [1, 1, 2]


def test_damaged_rows_are_counted(file):
    file.write_bytes(b"\0\0\n" + ROWS + b"damage\n" + LATER + b"\0\0\0")
    with pytest.warns(MazeWarning, match=r"left out 3 damaged rows, the first in line 1$"):
        assert len(list(statistics_rows(file))) == 3


def test_no_file_has_no_rows(file):
    assert list(statistics_rows(file)) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(file, make):
    make(file)
    with pytest.warns(MazeWarning, match=r"statistics were left out: .*eval\.csv is no regular file$"):
        assert list(statistics_rows(file)) == []
