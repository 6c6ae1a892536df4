"""An experiment back to plain TOML data, every default written out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.config.experiment import Experiment, Selection


def resolve_experiment(experiment: Experiment) -> dict[str, Any]:
    """Plain data (TOML types only) that structures to an equal experiment.

    What is None is left out. A component given as a Python object is recorded by its name only.
    """
    data: dict[str, Any] = plain(experiment)
    return data


def plain(value: Any) -> Any:
    """Tables, lists, strings, numbers and booleans, none of them shared with `value`."""
    if isinstance(value, Selection):
        return {"use": value.use, **plain(value.options)}
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if attrs.has(type(value)):
        return {
            attribute.alias or attribute.name: plain(getattr(value, attribute.name))
            for attribute in attrs.fields(type(value))
            if attribute.init and getattr(value, attribute.name) is not None
        }
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value if item is not None]
    if isinstance(value, Path):
        return str(value)
    return value


def to_toml(data: Mapping[str, Any]) -> str:
    """Plain data as TOML text; reading it gives the same data."""
    import tomli_w

    return tomli_w.dumps(data)
