"""`maze list-plugins` and `maze new-plugin`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_kernel.cli.guard import guarded
from maze_kernel.cli.tables import print_table

if TYPE_CHECKING:
    from maze_kernel.catalog import PluginRecord


@guarded
def list_plugins(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List the installed plugins and what they offer."""
    from maze_kernel.loader import Kernel

    plugins = Kernel.installed().plugins
    if as_json:
        typer.echo(json.dumps([_as_data(plugin) for plugin in plugins], indent=2))
        return
    if not plugins:
        typer.echo("no plugin is installed: a plugin is a distribution with an entry point in the group maze.plugins")
        return
    rows = [
        (plugin.name, plugin.version, plugin.distribution, plugin.status, offer, load_time)
        for plugin in plugins
        for offer, load_time in [(_offer(plugin), f"{plugin.load_seconds * 1000:.1f} ms")]
    ]
    print_table(("plugin", "version", "distribution", "status", "offers", "load"), rows)
    for plugin in plugins:
        if plugin.cause:
            typer.echo(f"{plugin.name} failed: {plugin.cause}")


def _offers(plugin: PluginRecord) -> dict[str, list[str]]:
    offers: dict[str, list[str]] = {}
    for component in plugin.components:
        offers.setdefault(component.kind, []).append(component.name)
    return offers


def _offer(plugin: PluginRecord) -> str:
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in _offers(plugin).items()) or "-"


def _as_data(plugin: PluginRecord) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "distribution": plugin.distribution,
        "status": plugin.status,
        "cause": plugin.cause,
        "offers": _offers(plugin),
        "load_seconds": plugin.load_seconds,
        "module": plugin.module,
    }


@guarded
def new_plugin(
    name: Annotated[str, typer.Argument(help="Name of the distribution: lower-case words joined by hyphens.")],
    out: Annotated[Path, typer.Option("--out", help="Folder in which the new folder is made.")] = Path(),
) -> None:
    """Start a plugin of your own from the example."""
    from maze_kernel.scaffold import new_plugin as write

    folder = write(name, out)
    typer.echo(f"{folder}")
    typer.echo(f"next: pip install -e {folder} && maze list-plugins", err=True)
