"""Which slow and learning tests a run of continuous integration calls, most telling first.

A change runs the slow files of the distributions that it touches whole, and those that concern every distribution. The
others take turns by the day. Prints one file a line; `--all` prints every one of them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ("docs", "integration", "numbers", "packaging", "reliability")
"""Folders of tests that concern every distribution."""
LEARNING = "learning"
"""Folder of the longest ones, which run after all others; so do files elsewhere whose names end like this."""
TURNS = 8
"""Days until each of the other files has had its turn."""
HOURS = 4
"""A change that lands as several commits was made within so many hours."""
BASE = "CI_BASE"
"""Environment variable that names the commit a change is compared with."""
_MARKED = re.compile(r"mark\.(slow|learning)\b")


def slow_files(root: Path) -> list[str]:
    """Test files that hold a slow or a learning test, relative to the repository."""
    files = sorted((root / "tests").rglob("test_*.py"))
    return [str(file.relative_to(root)) for file in files if _MARKED.search(file.read_text(encoding="utf-8"))]


def touched_folders(changed: Iterable[str]) -> set[str]:
    """Folders below `tests/` whose slow tests a change calls for.

    >>> sorted(touched_folders(["docs/index.md"]))
    ['docs']
    >>> sorted(touched_folders(["plugins/maze_gym/src/maze_gym/envs.py"]) - set(SHARED))
    ['maze_gym']
    """
    folders: set[str] = set()
    for first, *rest in (Path(path).parts for path in changed):
        if first in ("plugins", "tests") and len(rest) > 1:
            folders.add(rest[0])
        elif first.startswith("maze_") and rest:
            folders.add(first)
        elif first == "docs" or (not rest and first.endswith(".md")):
            folders.add("docs")
        else:  # what the whole repository is built, tested or tried out with
            folders.update(SHARED)
    if any(folder.startswith("maze_") or folder == "third_party" for folder in folders):
        folders.update(SHARED)
    return folders


def chosen(files: Sequence[str], changed: Iterable[str], day: int) -> list[str]:
    """The files to call, in this order; a run whose time is over leaves away the last ones.

    Args:
        files: all that hold slow tests.
        changed: paths that the change touches.
        day: a number that grows by one a day; it decides whose turn it is and which shared file is the first.
    """
    folders = touched_folders(changed)
    touched = [file for file in files if Path(file).parts[1] in folders]
    learning = [file for file in touched if Path(file).parts[1] == LEARNING or Path(file).stem.endswith(LEARNING)]
    shared = [file for file in touched if Path(file).parts[1] in SHARED]
    own = [file for file in touched if file not in (*shared, *learning)]
    others = [file for file in files if file not in touched]
    start = day % len(shared) if shared else 0
    turn = [file for index, file in enumerate(others) if index % TURNS == day % TURNS]
    return [*own, *shared[start:], *shared[:start], *learning, *turn]


def changed_paths(root: Path, base: str | None = None) -> list[str]:
    """Paths that differ from `base`: by default from where the branch left `main`.

    On `main` itself a change is what was committed within `HOURS` before its last commit.
    """
    base = base or _base(root)
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return [*(_git(root, "diff", "--name-only", base) if base else []), *new]


def _base(root: Path) -> str | None:
    head = _git(root, "rev-parse", "HEAD")
    for branch in ("origin/main", "main"):
        base = _git(root, "merge-base", "HEAD", branch)
        if base and base != head:
            return base[0]
    dated = _git(root, "log", "-1", "--format=%ct", "HEAD")
    before = _git(root, "rev-list", "-1", f"--before={int(dated[0]) - HOURS * 3600}", "HEAD") if dated else []
    return before[0] if before else None


def _git(root: Path, *arguments: str) -> list[str]:
    """The lines that git prints; none where it fails, as it does outside of a repository."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main() -> None:
    """Print the files of this run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every file that holds slow tests")
    files = slow_files(ROOT)
    if not parser.parse_args().all:
        files = chosen(files, changed_paths(ROOT, os.environ.get(BASE)), datetime.date.today().toordinal())
    for file in files:
        print(file)


if __name__ == "__main__":
    main()
