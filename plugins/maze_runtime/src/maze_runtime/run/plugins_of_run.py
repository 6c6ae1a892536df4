"""What the names in a run directory mean: components of the plugins that its `run.json` lists, whatever came since."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import attrs

from maze_kernel.catalog import Catalog, CatalogEntry, PluginRecord
from maze_kernel.config.origin import Origin
from maze_kernel.config.overrides import apply_overrides
from maze_kernel.config.plugin_table import read_plugin_table
from maze_kernel.config.problems import Problems
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_kernel.shown_command import shown_command
from maze_runtime.run.directory import StoredRun

_NO_DEFAULTS: dict[str, Any] = {"default": False, "default_for": ()}


class _CatalogOfRun(Catalog):
    """A catalog in which plugins that a run does not know take no name from those that it does.

    Args:
        plugins: everything that is installed.
        known: distributions of the plugins that the run knows.
    """

    def __init__(self, plugins: Sequence[PluginRecord], known: Collection[str]) -> None:
        super().__init__(plugins)
        self._known = known

    def named(self, use: str, kind: str | None = None) -> list[CatalogEntry]:
        """What `use` may mean: where plugins of the run have the name, theirs."""
        found = super().named(use, kind)
        return [entry for entry in found if entry.plugin.distribution in self._known] or found


def kernel_of_run(stored: StoredRun, overrides: Sequence[str] = (), kernel: Kernel | None = None) -> Kernel:
    """The plugins by which the experiment of a run is read.

    A plugin that was installed since gives what is asked for by a name of its own; it takes no name from the others
    and is the default of nothing.

    Args:
        overrides: which may change its table `[plugins]`.
        kernel: the plugins to use; None: everything installed, as the experiment says.

    Raises:
        RequestError: the experiment loads plugin files, for which its own file has to ask.
    """
    if kernel is None:
        problems = Problems(origin=Origin(file="", python=True))
        table = read_plugin_table(apply_overrides(dict(stored.resolved), overrides, problems), problems)
        if table.load:
            raise _without_file(stored, table.load)
        kernel = Kernel.installed(disable=table.disable)
    origins = stored.record.plugins
    known = {origin.distribution for origin in origins if origin.status != "disabled"}
    if not known:
        return kernel
    plugins = [plugin if plugin.distribution in known else _without_defaults(plugin) for plugin in kernel.plugins]
    narrowed = Kernel(plugins)
    narrowed.catalog = _CatalogOfRun(plugins, known)
    return narrowed


def _without_file(stored: StoredRun, load: Sequence[str]) -> RequestError:
    source = stored.record.source
    file = source if source.endswith(".toml") and Path(source).is_file() else "FILE"
    train = shown_command("maze", "train", file, "--resume", stored.path)
    return RequestError(
        f"the run {stored.path} loads plugin files, which only its experiment file may ask for",
        received=f"[plugins] load = {json.dumps(list(load))}",
        expected="the experiment file beside the run" if file == "FILE" else f"{file} beside the run",
        help=f"name it, too: {train}, other commands by {shown_command('--experiment', file)}",
    )


def _without_defaults(plugin: PluginRecord) -> PluginRecord:
    components = [
        attrs.evolve(component, **{key: none for key, none in _NO_DEFAULTS.items() if hasattr(component, key)})
        for component in plugin.components
    ]
    return attrs.evolve(plugin, components=tuple(components))
