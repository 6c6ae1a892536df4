"""Components as Python callers give them, turned into what an experiment's tables hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from gymnasium.spaces import Space

from maze_kernel.config.choices import import_target
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.run.naming import name_of_default

if TYPE_CHECKING:
    from maze_kernel.catalog import CatalogEntry
    from maze_kernel.loader import Kernel


_ARGUMENTS = {"wrapper": "wrappers", "callback": "callbacks"}
"""Kinds whose arguments take several."""
_METHODS = {
    "model": ("logits", "make_policy", "state_dict"),
    "policy": ("act", "begin_episodes", "seed"),
}
"""What an object given in place of a component must have."""
OWN_NETWORKS = "custom"
"""The model whose option `policy` takes a network from Python."""


def component_table(kernel: Kernel, kind: str, value: Any) -> Any:
    """A name, a table, a Selection or an object as `experiment_from_mapping` takes it.

    Raises:
        RequestError: an object that cannot be a component of that kind; the error names the argument.
    """
    if isinstance(value, (Mapping, Selection)):
        return value
    if attrs.has(type(value)) and not isinstance(value, type):
        entry = _entry_of_options(kernel, kind, value)
        if entry is not None:
            return _selection(entry, value)
    if kind == "env":
        return _env(kernel, value)
    if kind == "model" and is_bare_network(_imported(kernel, value)):
        return {"use": OWN_NETWORKS, "policy": value}
    if isinstance(value, str):
        return {"use": value}
    if value is not None and not isinstance(value, (bool, int, float, list, tuple)):
        _refuse_what_does_not_fit(kernel, kind, value)
    return value


def is_bare_network(value: Any) -> bool:
    """Whether it is a torch.nn.Module, or a class of them, and by itself no model: it lacks what trainers ask for."""
    from torch import nn

    is_class = isinstance(value, type)
    is_module = issubclass(value, nn.Module) if is_class else isinstance(value, nn.Module)
    return is_module and not all(hasattr(value, name) for name in _METHODS["model"])


def _imported(kernel: Kernel, value: Any) -> Any:
    """What an import path names, where it can be imported; anything else as it is."""
    if not isinstance(value, str) or ":" not in value or kernel.catalog.names_plugin(value):
        return value
    try:
        return import_target(value)
    except RequestError:
        return value  # refused with its reason when the experiment is checked


def with_value(inner: Any, path: Sequence[Any], value: Any) -> Any:
    """Tables and lists in one another with a value at a path of `key_path`; a table without `use` is merged. A copy.

    >>> with_value({"trainer": {"use": "ppo", "lr": 0.2}}, ("trainer",), {"lr": 0.1})
    {'trainer': {'use': 'ppo', 'lr': 0.1}}
    >>> with_value({"wrappers": [{"use": "time-limit"}]}, ("wrappers", 0, "max_episode_steps"), 5)
    {'wrappers': [{'use': 'time-limit', 'max_episode_steps': 5}]}
    """
    if path and isinstance(inner, (list, tuple)):
        index, *rest = path
        part = inner[index] if index < len(inner) else None
        return [*inner[:index], with_value(part, rest, value), *inner[index + 1 :]]
    if path:
        changes = {path[0]: with_value(_part(inner, path[0]), path[1:], value)}
    elif isinstance(value, Mapping) and "use" not in value and isinstance(inner, (Mapping, Selection)):
        changes = {name: with_value(_part(inner, name), (), part) for name, part in value.items()}
    else:
        return value
    return inner.with_options(**changes) if isinstance(inner, Selection) else {**(inner or {}), **changes}


def _part(table: Any, name: str) -> Any:
    if isinstance(table, Selection):
        return table.option(name)
    if table is not None and not isinstance(table, Mapping):
        raise RequestError(
            f"{name} cannot be set: what should hold it is no table",
            received=repr(table)[:80],
            help="set the whole of it, or give the component by name or as a table",
        )
    return (table or {}).get(name)


def tables_only(data: Any) -> Any:
    """The data with a mere table in place of each selection whose options can be set."""
    if isinstance(data, Mapping):
        return {key: tables_only(part) for key, part in data.items()}
    if isinstance(data, (list, tuple)):
        return [tables_only(part) for part in data]
    return {"use": data.use} if isinstance(data, Selection) and data.instance is None else data


def _refuse_what_does_not_fit(kernel: Kernel, kind: str, value: Any) -> None:
    """Refuse an object that would fail only where it is used."""
    missing = [name for name in _METHODS.get(kind, ()) if not hasattr(value, name)]
    is_class = isinstance(value, type)
    if kind == "trainer":
        expected = "a trainer's name, its table, or an instance of its options class"
    elif kind == "wrapper" and (is_class or not isinstance(value, Transform)):
        expected = "a wrapper's name, its table, or a Transform"
    elif kind in _METHODS and (is_class or missing):
        network = "a torch.nn.Module or its class as the policy network, " if kind == "model" else ""
        expected = f"a {kind}'s name, its table, {network}or an object with {', '.join(_METHODS[kind])}"
    else:
        return
    named = value if hasattr(value, "__qualname__") else type(value)
    path = f"{named.__module__}:{named.__qualname__}"
    what = "the class" if is_class else "the function" if named is value else "an object of the class"
    names = ", ".join(sorted(entry.component.name for entry in kernel.catalog.entries(kind)))
    by_path = f'; a {kind} of your own is named by its import path, {{"use": "{path}"}}'
    raise RequestError(
        f"{_ARGUMENTS.get(kind, kind)}= was given {what} {named.__qualname__}",
        received=path,
        expected=expected,
        help=f"choose one of {names or 'those that you install'}{'' if '<' in path else by_path}",
    )


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
        return name_of_default(kernel.catalog, "env")
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
