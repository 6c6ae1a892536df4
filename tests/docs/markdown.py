"""Reads the fenced blocks of a page, with the `<!-- test: ... -->` comment before each, which says how it is tested.

A mark is `[needs=NAME,…] KIND REST`; CONTRIBUTING.md lists the kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
WRITTEN = {"cli.md", "hooks.md"}
"""Pages made of the source alone: tests compare them with it, and run the examples of hooks."""
_BLOCK = re.compile(
    r"(?:<!-- (?P<about>test|code): (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*|\{[^\n]*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)


@dataclass
class Block:
    """One fenced block.

    Attributes:
        kind, rest: what its mark says; "code" where the block is code of a file that docs/generate.py writes there.
        needs: distributions or programs without which it cannot be run.
    """

    page: Path
    line: int
    language: str
    text: str
    mark: str
    kind: str
    rest: str
    needs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    if "_build" in page.parts:
        return []
    found = (_block(page, content, match) for match in _BLOCK.finditer(content))
    return [block for block in found if not block.language.startswith("{")]  # directives of Sphinx


def _block(page: Path, content: str, match: re.Match[str]) -> Block:
    mark = match["mark"] or ""
    needs, _, said = mark.partition(" ") if mark.startswith("needs=") else ("", "", mark)
    kind, _, rest = said.partition(" ") if match["about"] != "code" else ("code", "", said)
    line = content[: match.start("language")].count("\n") + 1
    names = tuple(needs.removeprefix("needs=").split(",")) if needs else ()
    return Block(page, line, match["language"], match["text"], mark, kind, rest, names)
