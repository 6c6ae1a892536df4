"""Components as Python callers give them, turned into what an experiment's tables hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from gymnasium.spaces import Space

from maze_kernel.errors import PluginError, RequestError
from maze_kernel.selection import Selection

if TYPE_CHECKING:
    from maze_kernel.catalog import CatalogEntry
    from maze_kernel.loader import Kernel


def component_table(kernel: Kernel, kind: str, value: Any) -> Any:
    """A name, a table, a Selection or an object as `experiment_from_mapping` takes it."""
    if isinstance(value, (Mapping, Selection)):
        return value
    if attrs.has(type(value)) and not isinstance(value, type):
        entry = _entry_of_options(kernel, kind, value)
        if entry is not None:
            return _selection(entry, value)
    if kind == "env":
        return _env(kernel, value)
    return {"use": value} if isinstance(value, str) else value


def set_paths(tables: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `tables` with values set by dotted path; nested tables are merged.

    >>> set_paths({"trainer": {"use": "ppo"}}, {"trainer.lr": 0.1, "vector": {"n_envs": 2}})
    {'trainer': {'use': 'ppo', 'lr': 0.1}, 'vector': {'n_envs': 2}}
    """
    result = dict(tables)
    for path, value in overrides.items():
        key, _, rest = path.partition(".")
        inner = result.get(key)
        if rest or (isinstance(value, Mapping) and isinstance(inner, (Mapping, Selection)) and "use" not in value):
            result[key] = _merged(key, inner, {rest: value} if rest else value)
        else:
            result[key] = value
    return result


def _merged(key: str, inner: Any, changes: Mapping[str, Any]) -> Any:
    if isinstance(inner, Selection) and inner.instance is None:
        return inner.with_options(**changes)
    if inner is not None and not isinstance(inner, Mapping):
        raise RequestError(
            f"{key} was given as an object, so its options cannot be overridden",
            received=", ".join(f"{key}.{name}" for name in changes),
            help="give the component by name or as a table",
        )
    return set_paths(inner or {}, changes)


def _env(kernel: Kernel, value: Any) -> Any:
    if isinstance(value, str):
        if ":" in value or any(entry.component.name == value for entry in kernel.catalog.entries("env")):
            return {"use": value}
        library = _library(kernel)
        return {"use": value} if library is None else {"use": library, "id": value}
    if not callable(value) and isinstance(getattr(value, "observation_space", None), Space):
        library = _library(kernel)
        return value if library is None else {"use": library, "id": value}
    return value


def _library(kernel: Kernel) -> str | None:
    """The environment component that ids of a library go to; None where no plugin provides it."""
    try:
        return kernel.catalog.default("env").component.name
    except PluginError:
        return None


def _entry_of_options(kernel: Kernel, kind: str, options: Any) -> CatalogEntry | None:
    named = f"{type(options).__module__}:{type(options).__qualname__}"
    fitting = [entry for entry in kernel.catalog.entries(kind) if entry.component.options == named]
    return fitting[0] if len(fitting) == 1 else None


def _selection(entry: CatalogEntry, options: Any) -> Selection:
    component = entry.component
    return Selection(
        kind=component.kind,
        use=component.name,
        target=component.target,
        options=options,
        owner=str(entry.plugin),
    )
