"""The Maze microkernel: plugins, experiments, contracts and the `maze` command; it needs neither plugin nor torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_kernel.errors import MazeError
    from maze_kernel.hookspecs import hookimpl

__version__ = "0.1.0"

_PUBLIC = {"MazeError": "maze_kernel.errors", "hookimpl": "maze_kernel.hookspecs"}

__all__ = ["MazeError", "__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'maze_kernel' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
