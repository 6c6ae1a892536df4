"""The numbers of one short run of each trainer are what they were before the kernel was split into distributions.

A difference means that something computes another thing than before, or draws its random numbers in another order.
Where that is intended, say so in the commit and write the digests anew:
`python tests/numbers/short_runs.py > tests/numbers/digests.json`. A statistic that did not exist before changes none.
Digests depend on the processor, so those of another one than the file names are not compared. Those that changed on
purpose on another one are left out until they are taken on the one that the file names ("impala-flat": schedules over
environment steps stand where an update begins).
"""

import json

import numpy as np
import pytest
import short_runs
from safetensors.numpy import save_file

RECORDED = json.loads(short_runs.DIGESTS.read_text())
STATISTICS = json.loads(short_runs.STATISTICS.read_text())
WAITING = {"impala-flat"}
"""Runs whose digests are left out."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_every_run_has_its_digests():
    assert set(RECORDED["runs"]) == set(short_runs.RUNS)
    assert set(STATISTICS) == set(short_runs.RUNS)


@pytest.mark.parametrize("name", short_runs.RUNS)
def test_the_numbers_are_those_from_before_the_move(name, folder):
    if short_runs.machine() != RECORDED["machine"]:
        pytest.skip(f"digests were taken with {RECORDED['machine']}, here is {short_runs.machine()}")
    run = short_runs.play(name, folder)
    found = short_runs.digests(run, STATISTICS[name])
    recorded = RECORDED["runs"][name]
    assert recorded.keys() >= ({"epoch"} if name in WAITING else {"weights", "rewards", "epoch"})
    assert {key: found[key] for key in recorded} == recorded


def test_a_new_statistic_changes_no_digest_and_a_missing_one_does(tmp_path):
    names = {"train": ["A/loss"]}

    def digest(*rows):
        run = _run_with(tmp_path, rows)
        return short_runs.digests(run, names)["statistics"]

    recorded = digest("1,8,0.1,A/loss,0.5")
    assert digest("1,8,0.1,A/entropy,0.25", "1,8,0.1,A/loss,0.5") == recorded
    assert digest("1,8,0.1,A/loss,0.5", "2,16,0.2,A/loss,0.5") != recorded
    assert short_runs.statistics_names(tmp_path) == names


def _run_with(folder, rows):
    """A run directory with these rows in its one CSV file, and with a checkpoint."""
    checkpoint = folder / "checkpoints" / "last"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (folder / "statistics").mkdir(exist_ok=True)
    (folder / "statistics" / "train.csv").write_text("\n".join(["epoch,env_steps,wall_seconds,tag,value", *rows]))
    (checkpoint / "state.json").write_text('{"epoch": 1}')
    save_file({"weight": np.zeros(1)}, checkpoint / "model.safetensors")
    return folder
