"""Decisions are named by their number alone, in code and pages."""

from collections import Counter
from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"


def test_no_two_decisions_have_one_number():
    numbers = Counter(path.name[:4] for path in DECISIONS.glob("[0-9]*.md"))
    assert len(numbers) > 50
    assert [number for number, n in numbers.items() if n > 1] == []
