"""The Maze microkernel. Its public names are loaded on first use, so importing it is cheap."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_kernel.api import RunContext
    from maze_kernel.deployment.agent import AgentDeployment
    from maze_kernel.errors import MazeError
    from maze_kernel.hookspecs import hookimpl

__version__ = "0.1.0"

_PUBLIC = {
    "AgentDeployment": "maze_kernel.deployment.agent",
    "MazeError": "maze_kernel.errors",
    "RunContext": "maze_kernel.api",
    "hookimpl": "maze_kernel.hookspecs",
}

__all__ = ["AgentDeployment", "MazeError", "RunContext", "__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'maze_kernel' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
