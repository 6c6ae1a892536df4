"""What the distributions of Maze bring, installed or not, for messages about what is missing.

`make reference` writes `first_party.json` from their records.
"""

from __future__ import annotations

import json
from importlib.resources import files

from maze_kernel.components import fold


def brought_by(kind: str, use: str = "") -> str:
    """The distribution of Maze that brings a component, "ppo" or "maze-ppo:ppo", or the default of a kind; else ""."""
    known = json.loads((files("maze_kernel") / "first_party.json").read_text(encoding="utf-8"))
    prefix, _, name = use.rpartition(":")
    found = str(known.get(kind, {}).get(name, ""))
    return found if fold(prefix or found) == found else ""
