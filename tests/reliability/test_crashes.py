"""Promises 1, 2 and 13: SIGKILL at random moments, also inside saves, loses nothing that was saved."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOY_PLUGIN = HERE.parent / "toys" / "toy_plugin.py"
N_KILLS = 40


@pytest.mark.slow
def test_killed_runs_resume_to_what_the_uninterrupted_run_gives(tmp_path):
    arguments = [sys.executable, str(HERE / "kill_driver.py"), str(TOY_PLUGIN), str(tmp_path), str(N_KILLS)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["inside"] >= 0.3 * N_KILLS, "too few kills inside a save to prove anything"
    assert report["unreadable"] == []
    assert report["lost"] == []
    assert report["leftovers"] == []
    n_epochs = report["n_epochs"]
    for name in ("model.safetensors", "trainer.safetensors"):
        killed, whole = (
            (tmp_path / run / "checkpoints" / f"epoch-{n_epochs:06d}" / name).read_bytes()
            for run in ("killed", "whole")
        )
        assert killed == whole
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
    assert [epoch for epoch, tag, _ in rows(tmp_path / "killed") if tag == "ToyEvents/epoch"] == list(
        range(1, n_epochs + 1)
    )


def rows(run_dir):
    with open(run_dir / "statistics" / "train.csv") as file:
        return [(int(row["epoch"]), row["tag"], row["value"]) for row in csv.DictReader(file)]
