"""What the names in a run directory mean: components of the plugins that its `run.json` lists, whatever came since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from maze_kernel.catalog import Catalog, CatalogEntry, PluginRecord
from maze_kernel.config.origin import Origin
from maze_kernel.config.overrides import apply_overrides
from maze_kernel.config.plugin_table import read_plugin_table
from maze_kernel.config.problems import Problems
from maze_kernel.loader import Kernel
from maze_runtime.run.provenance import PluginOrigin

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


def kernel_of_run(
    experiment: Mapping[str, Any], origins: Sequence[PluginOrigin], overrides: Sequence[str], kernel: Kernel | None
) -> Kernel | None:
    """The plugins by which the experiment of a run is read.

    A plugin that was installed since gives what is asked for by a name of its own; it takes no name from the others
    and is the default of nothing.

    Args:
        experiment: plain data, as `run.json` holds it.
        origins: the plugins of the run.
        overrides: which may change its table `[plugins]`.
        kernel: the plugins to use; None: everything installed, as the experiment says.

    Returns:
        None where the experiment loads plugin files, which reading it refuses.
    """
    if kernel is None:
        problems = Problems(origin=Origin(file="", python=True))
        options = read_plugin_table(apply_overrides(dict(experiment), overrides, problems), problems)
        if options.load:
            return None
        kernel = Kernel.installed(disable=options.disable)
    known = {origin.distribution for origin in origins if origin.status != "disabled"}
    if not known:
        return kernel
    plugins = [plugin if plugin.distribution in known else _without_defaults(plugin) for plugin in kernel.plugins]
    narrowed = Kernel(plugins)
    narrowed.catalog = _CatalogOfRun(plugins, known)
    return narrowed


def _without_defaults(plugin: PluginRecord) -> PluginRecord:
    components = [
        attrs.evolve(component, **{key: none for key, none in _NO_DEFAULTS.items() if hasattr(component, key)})
        for component in plugin.components
    ]
    return attrs.evolve(plugin, components=tuple(components))
