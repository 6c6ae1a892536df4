"""What lies in the folder of a sweep, for a command that was interrupted while it still loaded the modules of sweeps.

So nothing is imported here that takes time.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path


def is_sweep(path: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (path / "sweep.json").is_file()


def count_states(folder: Path) -> dict[str, int]:
    """How many trials of a sweep are in which state, most frequent first; files that cannot be read do not count."""
    counts: Counter[str] = Counter()
    for file in (folder / "trials").glob("*/trial.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            counts[str(json.loads(file.read_bytes())["status"])] += 1
    return dict(counts.most_common())
