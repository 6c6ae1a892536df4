"""Reads the fenced blocks of a page, with the `<!-- test: ... -->` comment before each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(
    r"(?:<!-- test: (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    return [
        Block(page, content[: m.start("language")].count("\n") + 1, m["language"], m["text"], m["mark"] or "")
        for m in _BLOCK.finditer(content)
        if "_build" not in page.parts
    ]
