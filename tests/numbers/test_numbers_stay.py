"""The numbers of one short run of each trainer are what they were before the kernel was split into distributions.

A difference means that something computes another thing than before, or draws its random numbers in another order.
Where that is intended, say so in the commit and write the digests anew:
`python tests/numbers/short_runs.py > tests/numbers/digests.json`.
"""

import json

import pytest
import short_runs

RECORDED = json.loads(short_runs.DIGESTS.read_text())

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_every_run_has_its_digests():
    assert set(RECORDED["runs"]) == set(short_runs.RUNS)


@pytest.mark.parametrize("name", short_runs.RUNS)
def test_the_numbers_are_those_from_before_the_move(name, folder):
    if short_runs.machine() != RECORDED["machine"]:
        pytest.skip(f"digests were taken with {RECORDED['machine']}, here is {short_runs.machine()}")
    assert short_runs.play(name, folder) == RECORDED["runs"][name]
