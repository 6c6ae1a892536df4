"""The page for those who come from RLlib, rllib.md: its examples run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

PAGE = Path(__file__).resolve().parents[2] / "docs/migrate/rllib.md"
BLOCKS = re.findall(
    r"<!-- test: by tests/maze_rllib/test_migration_page.py -->\n```python\n(.*?)```",
    PAGE.read_text(encoding="utf-8"),
    re.S,
)


def test_there_is_one_on_either_side():
    assert ["PPOConfig" in block for block in BLOCKS] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=["rllib", "maze"])
def test_an_example_of_the_page_prints_a_mean_reward(block, tmp_path):
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert 8.0 < float(done.stdout.split()[-1]) <= 500.0
