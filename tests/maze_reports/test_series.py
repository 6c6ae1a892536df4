"""`load_series`: statistics of runs as arrays and frames."""

import csv
import sys

import numpy as np
import pytest

from maze_kernel.errors import MazeWarning, RequestError
from maze_reports.series import COLUMNS, load_series

MEAN_REWARD = "BaseEnvEvents/reward/mean"


def rows_of(run, split):
    with open(run / "statistics" / f"{split}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_a_real_run_gives_what_its_files_hold(trained):
    run = trained / "ppo-1"
    table = load_series(run)
    assert table.runs == (str(run),)
    for split in ("train", "eval"):
        written = rows_of(run, split)
        tags = sorted({row["tag"] for row in written})
        assert list(table.tags(split)) == tags
        for tag in tags:
            own = [row for row in written if row["tag"] == tag]
            series = table.series(tag, split=split)
            np.testing.assert_array_equal(series.value, [float(row["value"]) for row in own])
            np.testing.assert_array_equal(series.env_steps, [int(row["env_steps"]) for row in own])
            np.testing.assert_array_equal(series.wall_seconds, [float(row["wall_seconds"]) for row in own])
            assert series.epoch.tolist() == [int(row["epoch"]) for row in own]
    assert len(table.series(MEAN_REWARD)) == 3


def test_a_folder_gives_all_runs_and_asks_which(trained):
    table = load_series(trained)
    assert [run.rpartition("/")[2] for run in table.runs] == ["a2c-1", "failed", "ppo-1", "ppo-2"]
    one = table.series(MEAN_REWARD, run=trained / "ppo-2")
    np.testing.assert_array_equal(one.value, load_series(trained / "ppo-2").series(MEAN_REWARD).value)
    with pytest.raises(RequestError, match="holds 4 runs"):
        table.series(MEAN_REWARD)


def test_an_unknown_statistic_names_those_there_are(make_run):
    table = load_series(make_run("a", {10: 1.0}))
    with pytest.raises(RequestError) as error:
        table.series("BaseEnvEvents/reward/meen")
    assert error.value.nearest == (MEAN_REWARD,)
    assert MEAN_REWARD in error.value.expected


def test_half_a_row_is_passed_over_and_damaged_rows_are_named(make_run):
    run = make_run("a", {10: 1.0, 20: 2.0})
    with open(run / "statistics" / "eval.csv", "a") as file:
        file.write("nonsense\n3,30,6.0,BaseEnvEvents/reward/mean,3.0\n4,40,8.0,BaseEnvEvents/rew")
    with pytest.warns(MazeWarning, match=r"a/statistics/eval\.csv: left out 1 damaged row in line 4$"):
        assert load_series(run).series(MEAN_REWARD).value.tolist() == [1.0, 2.0, 3.0]


def test_the_folder_of_the_csv_logger_is_that_of_the_experiment(make_run):
    run = make_run("a", {10: 1.0}, loggers=[{"use": "console"}, {"use": "csv", "folder": "numbers"}])
    assert len(load_series(run)) == 0
    (run / "statistics").rename(run / "numbers")
    assert len(load_series(run)) == 1


def test_pandas_frames_hold_the_columns(trained):
    pandas = pytest.importorskip("pandas")
    table = load_series(trained)
    frame = table.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == len(table)
    assert pandas.api.types.is_integer_dtype(frame["env_steps"])
    best = frame[(frame.tag == MEAN_REWARD) & (frame.split == "eval")].groupby("run").value.max()
    assert best[str(trained / "ppo-1")] == table.series(MEAN_REWARD, run=trained / "ppo-1").value.max()


def test_polars_frames_hold_the_columns(trained):
    pytest.importorskip("polars")
    table = load_series(trained)
    frame = table.to_polars()
    assert frame.columns == list(COLUMNS)
    assert frame["value"].to_list() == table.value.tolist()
    assert frame["epoch"].dtype.is_integer()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_frame_without_its_package_says_what_to_install(make_run, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RequestError, match=f"{package} is not installed") as error:
        getattr(load_series(make_run("a", {10: 1.0})), f"to_{package}")()
    assert error.value.help == f"pip install 'maze-reports[{package}]'"
