"""The training loop of docs/how-to/low-level.md learns what its page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "low-level.md"


@pytest.mark.slow
def test_the_loop_by_hand_learns_to_balance(tmp_path):
    mark = f"<!-- test: by tests/docs/{Path(__file__).name} -->"
    (loop,) = re.findall(rf"^{mark}\n```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    done = subprocess.run([sys.executable, "-c", loop], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rewards = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(rewards) == 4
    assert max(rewards) > 150
