"""Warnings of a run are shown as ever, and handed over too."""

import threading
import warnings

import pytest

from maze_kernel.errors import MazeWarning
from maze_runtime.run.warning_notes import WarningNotes


def warn(text="a worker died", category=MazeWarning):
    warnings.warn(text, category, stacklevel=2)


@pytest.fixture
def told():
    return []


@pytest.fixture
def shown():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_a_warning_is_shown_and_handed_over(shown, told):
    with WarningNotes(told.append, pytest.fail):
        warn()
        warn("not of Maze", RuntimeWarning)
    assert [str(one.message) for one in shown] == ["a worker died", "not of Maze"]
    assert told == ["a worker died"]


def test_what_filters_leave_out_is_not_handed_over(told):
    with WarningNotes(told.append, told.append):
        with warnings.catch_warnings(action="ignore"):
            warn()
        with warnings.catch_warnings(action="error"), pytest.raises(MazeWarning):
            warn()
    assert not told


@pytest.mark.usefixtures("shown")
def test_other_threads_call_no_logger(told):
    with WarningNotes(pytest.fail, told.append):
        thread = threading.Thread(target=warn)
        thread.start()
        thread.join()
    assert told == ["a worker died"]


def test_runs_may_overlap(shown, told):
    """The first one ends first, and what was there before it is back when all have ended."""
    before = warnings.showwarning
    first, second = WarningNotes(told.append, pytest.fail), WarningNotes(told.append, pytest.fail)
    first.__enter__()
    second.__enter__()
    warn()
    first.close()
    warn("another one")
    second.close()
    warn("after them")
    assert told == ["a worker died"] * 2 + ["another one"]
    assert len(shown) == 3
    assert warnings.showwarning is before
