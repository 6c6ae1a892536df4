"""The public names of Maze in one place, each loaded from its own distribution on first use.

>>> from maze_suite import RunContext
>>> RunContext.__module__
'maze_runtime.context'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_deployment.agent import AgentDeployment
    from maze_deployment.export import export_policy
    from maze_kernel.config import load_experiment
    from maze_kernel.contracts.env import StructuredEnv, StructuredSpaces
    from maze_kernel.contracts.transform import Transform
    from maze_kernel.errors import MazeError
    from maze_kernel.hookspecs import hookimpl
    from maze_kernel.loader import Kernel
    from maze_reports.series import load_series
    from maze_runtime.context import RunContext
    from maze_runtime.context_env import estimate_statistics, make_env
    from maze_runtime.env.conversion import ActionConversion, ObservationConversion
    from maze_runtime.env.core_env import CoreEnv
    from maze_runtime.env.flat import FlatEnv, flat_spaces
    from maze_runtime.env.maze_env import MazeEnv
    from maze_runtime.env.to_gymnasium import to_gymnasium
    from maze_runtime.env.wrapper import EnvWrapper
    from maze_runtime.playing.roll_out import RolloutOptions, roll_out
    from maze_runtime.rollout.heuristic import Heuristic
    from maze_runtime.rollout.simple_statistics import simple_statistics
    from maze_runtime.training.callbacks import Callback
    from maze_runtime.training.train import train
    from maze_trajectories.dataset import TrajectoryDataset

_HOMES = {
    "AgentDeployment": "maze_deployment.agent",
    "ActionConversion": "maze_runtime.env.conversion",
    "Callback": "maze_runtime.training.callbacks",
    "CoreEnv": "maze_runtime.env.core_env",
    "EnvWrapper": "maze_runtime.env.wrapper",
    "FlatEnv": "maze_runtime.env.flat",
    "Heuristic": "maze_runtime.rollout.heuristic",
    "Kernel": "maze_kernel.loader",
    "MazeEnv": "maze_runtime.env.maze_env",
    "MazeError": "maze_kernel.errors",
    "ObservationConversion": "maze_runtime.env.conversion",
    "RolloutOptions": "maze_runtime.playing.roll_out",
    "RunContext": "maze_runtime.context",
    "StructuredEnv": "maze_kernel.contracts.env",
    "StructuredSpaces": "maze_kernel.contracts.env",
    "TrajectoryDataset": "maze_trajectories.dataset",
    "Transform": "maze_kernel.contracts.transform",
    "estimate_statistics": "maze_runtime.context_env",
    "export_policy": "maze_deployment.export",
    "flat_spaces": "maze_runtime.env.flat",
    "hookimpl": "maze_kernel.hookspecs",
    "load_experiment": "maze_kernel.config",
    "load_series": "maze_reports.series",
    "make_env": "maze_runtime.context_env",
    "roll_out": "maze_runtime.playing.roll_out",
    "simple_statistics": "maze_runtime.rollout.simple_statistics",
    "to_gymnasium": "maze_runtime.env.to_gymnasium",
    "train": "maze_runtime.training.train",
}
"""Name to the module that defines it."""

__all__ = [
    "ActionConversion",
    "AgentDeployment",
    "Callback",
    "CoreEnv",
    "EnvWrapper",
    "FlatEnv",
    "Heuristic",
    "Kernel",
    "MazeEnv",
    "MazeError",
    "ObservationConversion",
    "RolloutOptions",
    "RunContext",
    "StructuredEnv",
    "StructuredSpaces",
    "TrajectoryDataset",
    "Transform",
    "estimate_statistics",
    "export_policy",
    "flat_spaces",
    "hookimpl",
    "load_experiment",
    "load_series",
    "make_env",
    "roll_out",
    "simple_statistics",
    "to_gymnasium",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maze_suite' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
