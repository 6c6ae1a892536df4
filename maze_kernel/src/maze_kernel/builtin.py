"""The kernel's own plugin, registered like any other: the commands that need nothing but the kernel."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel.components import CommandComponent
from maze_kernel.hookspecs import hookimpl

MAZE_PLUGIN_API = 1


@hookimpl
def maze_commands() -> Iterable[CommandComponent]:
    """Commands about experiment files and plugins."""
    for name, target, summary in (
        ("check", "experiments:check", "Check an experiment file, with --steps also its environment."),
        ("describe", "components:describe", "Describe a component and its options, or the networks of an experiment."),
        ("list-plugins", "plugins:list_plugins", "List the installed plugins and what they offer."),
        ("new-plugin", "plugins:new_plugin", "Start a plugin of your own from the example."),
        ("schema", "experiments:schema", "Print the JSON Schema of experiments, for editors."),
    ):
        yield CommandComponent(name=name, target=f"maze_kernel.cli.{target}", summary=summary)
