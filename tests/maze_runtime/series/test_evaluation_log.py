"""What a run measured is kept beside its checkpoints, and read as far as it is whole."""

import pytest

from maze_kernel.contracts.logger import EpochRecord
from maze_kernel.errors import MazeWarning
from maze_runtime.series.evaluation_log import EvaluationLog


@pytest.fixture
def log(tmp_path):
    log = EvaluationLog(tmp_path)
    for epoch in range(1, 5):
        evaluation = {"A/x": float("nan") if epoch == 2 else float(epoch)}
        log.write(EpochRecord(epoch=epoch, env_steps=10, wall_seconds=1.0, train={}, evaluation=evaluation))
    return log


def epochs(rows):
    return [row["epoch"] for row in rows]


def test_later_lines_and_half_ones_are_removed(log, tmp_path, recwarn):
    file = tmp_path / "evaluations.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(file.read_bytes() + lines[0][:20])
    assert epochs(log.go_on_from(3)) == [1, 2, 3]
    assert file.read_bytes() == b"".join(lines[:3])
    assert not recwarn.list
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("damage", [b"\0" * 2000, b'{"epoch": 2, "env_st', b'{"epoch": 2}', b"\xff", b"3", b""])
def test_damaged_lines_are_left_out_and_kept_elsewhere(log, tmp_path, damage):
    file = tmp_path / "evaluations.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], damage + b"\n", *lines[2:]])
    file.write_bytes(damaged)
    with pytest.warns(MazeWarning, match=r"left out 1 damaged line; .* is evaluations\.jsonl\.damaged$"):
        assert epochs(log.go_on_from(4)) == [1, 3, 4]
    assert file.read_bytes() == b"".join([lines[0], *lines[2:]])
    assert (tmp_path / "evaluations.jsonl.damaged").read_bytes() == damaged
