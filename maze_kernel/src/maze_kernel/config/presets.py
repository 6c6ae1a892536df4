"""Presets: named tables that plugins bring; an experiment's `preset` lays them beneath what it says itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import tomli

from maze_kernel.catalog import Catalog, CatalogEntry
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import Problems
from maze_kernel.errors import PluginError, RequestError


def preset_table(catalog: Catalog, entry: CatalogEntry) -> Mapping[str, Any]:
    """What a preset says; raises PluginError where it cannot be read."""
    package, _, name = entry.component.target.partition(":")
    try:
        if not name.endswith(".toml"):
            return dict(catalog.load(entry))
        return tomli.loads((files(package) / name).read_text(encoding="utf-8"))
    except (ImportError, TypeError, OSError, ValueError) as error:
        raise PluginError(f"{entry.qualified_name} cannot be read: {error}", owner=str(entry.plugin)) from error


def lay_presets(
    data: Mapping[str, Any],
    written: Mapping[str, Any],
    names: Any,
    catalog: Catalog,
    problems: Problems,
    at: KeyPath = ("preset",),
) -> dict[str, Any]:
    """The data on top of the presets of these names, for which a place asks; of several, later ones win.

    Args:
        written: the data with all that will be laid over the result, so that it knows which components are chosen.
    """
    for name in reversed(names if isinstance(names, (list, tuple)) else [names]):
        try:
            entry = catalog.find("preset", str(name))
            owner = f'preset "{entry.component.name}" of {entry.plugin}'
            data = _lay_beneath(catalog, data, written, preset_table(catalog, entry), owner, problems.origin.beneath)
        except RequestError as error:
            error.location = problems.origin.value(at)
            problems.add_error(at, error)
    return dict(data)


def lay_trainer_defaults(data: Mapping[str, Any], catalog: Catalog, problems: Problems) -> dict[str, Any]:
    """The data on top of what its trainer's own defaults are meant for: environments, wrappers, networks."""
    selected = data.get("trainer")
    use = selected.get("use") if isinstance(selected, Mapping) else getattr(selected, "use", selected)
    for entry in catalog.named(use, "trainer") if isinstance(use, str) else ():
        record: Any = entry.component
        below = {} if record.n_envs is None else {"vector": {"n_envs": record.n_envs}}
        data = _lay_beneath(catalog, data, data, below, f"trainer {use!r}", problems.origin.beneath)
        presets = catalog.named(record.preset or "", "preset")
        own = [preset.qualified_name for preset in presets if preset.plugin == entry.plugin]
        if presets:
            data = lay_presets(data, data, own or record.preset, catalog, problems, ("trainer", "use"))
    return dict(data)


def _lay_beneath(
    catalog: Catalog,
    data: Mapping[str, Any],
    written: Mapping[str, Any],
    below: Mapping[str, Any],
    owner: str,
    owners: dict[KeyPath, str],
    at: KeyPath = (),
) -> dict[str, Any]:
    """The data with the keys of `below` that they lack; a table that will select another component stays alone."""
    result = dict(data)
    for key, value in below.items():
        own, said = result.get(key, {}), written.get(key, result.get(key))
        if isinstance(own, Mapping) and isinstance(said, Mapping) and isinstance(value, Mapping):
            if _agree(catalog, {**own, **said}, value):
                result[key] = _lay_beneath(catalog, own, said, value, owner, owners, (*at, key))
        elif key not in result:
            result[key], owners[*at, key] = copy.deepcopy(value), owner
    return result


def _agree(catalog: Catalog, own: Mapping[str, Any], below: Mapping[str, Any]) -> bool:
    """Whether a table selects nothing, or the component that the one beneath it selects, however it is spelt."""
    uses = own.get("use"), below.get("use")
    if uses[0] is None or uses[0] == uses[1]:
        return True
    first, second = (catalog.named(use) if isinstance(use, str) else [] for use in uses)
    return any(entry in second for entry in first)
