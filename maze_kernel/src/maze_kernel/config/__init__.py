"""Experiment files: TOML text to one frozen, checked `Experiment`.

The public names are loaded on first use. `load` ties the steps together: `source` (bytes to TOML data),
`positions` and `origin` (where things stand), `presets` (tables beneath the file), `overrides`, `plugin_table`,
`structure` (data to typed values, with `scalars`, `shapes` and `given`), `choices` (what `use` names), `resolved`
(back to plain data). `description` and `json_schema` tell what can be written.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_kernel.config.description import describe as describe
    from maze_kernel.config.json_schema import schema as schema
    from maze_kernel.config.load import experiment_from_mapping as experiment_from_mapping
    from maze_kernel.config.load import load_experiment as load_experiment
    from maze_kernel.config.load import select as select
    from maze_kernel.config.paths import inside_run_dir as inside_run_dir
    from maze_kernel.config.paths import path_inside as path_inside
    from maze_kernel.config.resolved import to_toml as to_toml

_PUBLIC = {
    "describe": "description",
    "experiment_from_mapping": "load",
    "inside_run_dir": "paths",
    "load_experiment": "load",
    "path_inside": "paths",
    "schema": "json_schema",
    "select": "load",
    "to_toml": "resolved",
}
"""Public name to the module here that holds it."""

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'maze_kernel.config' has no attribute {name!r}")
    return getattr(importlib.import_module(f"maze_kernel.config.{_PUBLIC[name]}"), name)
