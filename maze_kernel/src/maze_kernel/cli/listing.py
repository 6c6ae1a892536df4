"""What `maze list-plugins` prints. Free of typer, whose option parsing alone takes a tenth of a second."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from maze_kernel.cli.tables import print_table

if TYPE_CHECKING:
    from maze_kernel.catalog import PluginRecord


def show_plugins(as_json: bool) -> None:
    """Print every plugin with its status and what it offers."""
    from maze_kernel.loader import Kernel

    plugins = Kernel.installed().plugins
    if as_json:
        print(json.dumps([_as_data(plugin) for plugin in plugins], indent=2))
        return
    if not plugins:
        print("no plugin is installed: a plugin is a distribution with an entry point in the group maze.plugins")
        return
    rows = [
        (one.name, one.version, one.distribution, one.status, _offer(one), f"{one.load_seconds * 1000:.1f} ms")
        for one in plugins
    ]
    print_table(("plugin", "version", "distribution", "status", "offers", "load"), rows)
    for plugin in plugins:
        if plugin.cause:
            print(f"{plugin.name} failed: {plugin.cause}")


def _offers(plugin: PluginRecord) -> dict[str, list[str]]:
    offers: dict[str, list[str]] = {}
    for component in plugin.components:
        offers.setdefault(component.kind, []).append(component.name)
    return offers


def _offer(plugin: PluginRecord) -> str:
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in _offers(plugin).items()) or "-"


def _as_data(plugin: PluginRecord) -> dict[str, Any]:
    names = ("name", "version", "distribution", "status", "cause", "load_seconds", "module")
    return {**{name: getattr(plugin, name) for name in names}, "offers": _offers(plugin)}
