"""The page on reliability names test files that exist and hold tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/reliability.md").read_text()


def test_every_promise_names_tests_that_exist():
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == [*range(1, 11), 12, 13, 14, 15]
    for number, tests in rows:
        names = re.findall(r"`(tests/\S+\.py)`", tests)
        assert names, f"promise {number} names no test"
        for name in names:
            assert "def test_" in (ROOT / name).read_text(), name
