"""Sweeps: many runs of one experiment with different settings, chosen by a searcher.

`maze_sweeps.sweep` runs one from Python. The public names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_sweeps.sweeping import SweepResult as SweepResult
    from maze_sweeps.sweeping import sweep as sweep

__all__ = ["SweepResult", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'maze_sweeps' has no attribute {name!r}")
    return getattr(importlib.import_module("maze_sweeps.sweeping"), name)
