"""From (kind, name) to a component and the plugin that gave it: collisions, nearest names, and building.

Nothing here imports a plugin; loading is `loader.py`. A target is resolved when it is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

import attrs

from maze_kernel.components import COMPONENT_TYPES, Component, fold, load_attribute
from maze_kernel.errors import ComponentError, Location, MazeError, PluginError
from maze_kernel.first_party import brought_by
from maze_kernel.foreign_errors import one_line
from maze_kernel.plugin_files import show_target
from maze_kernel.selection import Selection, own_copies

_WORDS = {"vector": "vector mode", "workers": "worker pool"}
"""Kinds whose name is no word."""
_LEAVE_OUT = "; or name the plugins that are not meant in `[plugins] disable`"


@attrs.frozen(kw_only=True)
class PluginRecord:
    """One plugin that was found, whether or not it could be loaded.

    A plugin one of whose hooks fails has status "failed" and still offers the components of its other hooks.
    """

    name: str
    """Of the entry point, e.g. "maze-ppo"; the stem of a file given by `[plugins] load`."""
    distribution: str
    """The distribution that registered it; the path of a plugin file."""
    version: str
    """Version of the distribution; "" for a plugin file."""
    status: Literal["active", "disabled", "failed"]
    cause: str | None = None
    """Why it failed, in one line."""
    components: tuple[Component, ...] = ()
    load_seconds: float = 0.0
    module: str = ""
    """The module that implements its hooks."""
    notes: tuple[str, ...] = ()
    """Side effects of loading that were undone, e.g. output to the screen."""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".strip()


@attrs.frozen(kw_only=True)
class CatalogEntry:
    """A component and who gave it."""

    component: Component
    plugin: PluginRecord

    @property
    def qualified_name(self) -> str:
        """The spelling that stays unique when two plugins use one name: "maze-ppo:ppo"."""
        return f"{self.plugin.name}:{self.component.name}"


class Catalog:
    """Everything the loaded plugins offer."""

    def __init__(self, plugins: Iterable[PluginRecord] = ()) -> None:
        self.plugins = tuple(plugins)
        self._entries = _collapse(self.plugins)

    def entries(self, kind: str | None = None) -> tuple[CatalogEntry, ...]:
        """All components, or those of one kind, by kind and name; names that collide are all listed."""
        return tuple(entry for entry in self._entries if kind in (None, entry.component.kind))

    def names_plugin(self, use: str) -> bool:
        """Whether `use` is written "plugin:name" with a plugin that was found, and so is no import path."""
        prefix, colon, _ = use.partition(":")
        return bool(colon) and any(is_called(plugin, prefix) for plugin in self.plugins)

    def find(self, kind: str, use: str, *, location: Location | None = None) -> CatalogEntry:
        """The component called `use`: "ppo", or "maze-ppo:ppo" to say whose.

        Raises:
            PluginError: there is none, or several different ones. It names the nearest names, the plugins that
                collide, and plugins that failed or are disabled and could have given it.
        """
        if not (entries := self.named(use, kind)):
            raise self._missing(kind, use, location)
        if len(entries) > 1:
            raise _collision(entries, location)
        return entries[0]

    def named(self, use: str, kind: str | None = None) -> list[CatalogEntry]:
        """What `use` may mean among the components of one kind, or of all."""
        prefix, colon, name = use.rpartition(":")
        entries = [entry for entry in self.entries(kind) if entry.component.name == name]
        return [entry for entry in entries if is_called(entry.plugin, prefix)] if colon else entries

    def options_class(self, entry: CatalogEntry) -> type | None:
        """The attrs class of a component's options; None where its target's keyword-only parameters are the options.

        Raises:
            PluginError: the class cannot be imported, or is none of attrs.
        """
        if entry.component.options is None:
            return None
        owner = f"{entry.plugin} ({entry.component.kind} {entry.component.name!r})"
        found = _resolve(entry.component.options, "options class", owner)
        if isinstance(found, type) and attrs.has(found):
            return found
        raise PluginError(
            f"the options class {show_target(entry.component.options)!r} is no class of attrs",
            expected="a class decorated with @attrs.frozen(kw_only=True)",
            owner=owner,
            help="decorate it, or leave it out of the record: keyword-only parameters of the target are options, too",
        )

    def load(self, entry: CatalogEntry) -> Any:
        """A component's target, imported.

        Raises:
            PluginError: it cannot be.
        """
        owner = f"{entry.plugin} ({entry.component.kind} {entry.component.name!r})"
        return _resolve(entry.component.target, "target", owner)

    def build(self, selection: Selection, *args: Any) -> Any:
        """Build what was selected; see `build`."""
        return build(selection, *args)

    @overload
    def default(self, kind: Literal["logger"]) -> tuple[CatalogEntry, ...]: ...
    @overload
    def default(
        self, kind: Literal["env", "trainer", "model", "workers", "distribution", "dataset"], space: str = ""
    ) -> CatalogEntry: ...

    def default(self, kind: str, space: str = "") -> CatalogEntry | tuple[CatalogEntry, ...]:
        """What is used where nothing is selected: every default logger, else the one component with `default`.

        Args:
            kind: of component.
            space: for a distribution: one of the words of `DistributionComponent.default_for`.

        Raises:
            PluginError: no component of the kind is the default, or several are.
        """
        entries = self.entries(kind)
        if space:
            found = [entry for entry in entries if space in getattr(entry.component, "default_for", ())]
        else:
            found = [entry for entry in entries if getattr(entry.component, "default", False)]
        if kind == "logger":
            return tuple(found)
        wanted = f"default {_WORDS.get(kind, kind)}" + (f" for {space} actions" if space else "")
        if not found:
            raise PluginError(
                f"no plugin provides a {wanted}",
                help=self._advice(brought_by(kind)) or f"install a plugin with a {wanted}",
            )
        if len(found) > 1:
            raise PluginError(
                f"several plugins provide the {wanted}",
                received=", ".join(f"{e.qualified_name} ({e.plugin})" for e in found),
                help=f"select one by name, for example use = {found[0].qualified_name!r}{_LEAVE_OUT}",
            )
        return found[0]

    def _missing(self, kind: str, use: str, location: Location | None) -> PluginError:
        prefix, ours = use.rpartition(":")[0], brought_by(kind, use)
        owners = [plugin for plugin in self.plugins if is_called(plugin, prefix or ours)]
        for plugin in owners:
            if plugin.status != "active":
                take_out = f"take {plugin.name!r} out of `[plugins] disable`"
                return PluginError(
                    f"{_WORDS.get(kind, kind)} {use!r} is not available: {_excuse(plugin)}",
                    location=location,
                    owner=str(plugin),
                    help=take_out if plugin.status == "disabled" else f"repair {plugin}, or select another component",
                )
        names = [entry.qualified_name if prefix else entry.component.name for entry in self.entries(kind)]
        near = () if ours and not owners else nearest(use, names)
        elsewhere = [entry.component.kind for entry in self._entries if entry.component.name == use]
        hint = self._advice(ours) or (f"{use!r} is a {elsewhere[0]}, not a {kind}" if elsewhere else "")
        offered = ", ".join(sorted(set(names))) or "none: no plugin offers one"
        absent = f": no plugin {prefix!r} is installed" if prefix and not owners else ""
        return PluginError(
            f"no {_WORDS.get(kind, kind)} is called {use!r}{absent}",
            location=location,
            expected=None if near or ours else f"one of {offered}",
            nearest=near,
            help=hint or f"run `maze list-{'presets' if kind == 'preset' else 'plugins'}` to see what is installed",
        )

    def _advice(self, ours: str) -> str:
        """How to get what is missing, which a distribution of Maze brings, or ""; else who could have given it."""
        if ours and not any(is_called(plugin, ours) for plugin in self.plugins):
            return f"it comes with {ours}: pip install {ours}"
        excuses = [_excuse(plugin) for plugin in self.plugins if plugin.status == "failed"]
        disabled = [plugin.name for plugin in self.plugins if plugin.status == "disabled"]
        return "; ".join([*excuses, *([f"disabled: {', '.join(disabled)}"] if disabled else [])])


def build(selection: Selection, *args: Any) -> Any:
    """Build the selected component: `target(*args, options)`, or `target(*args, **options)` without an options class.

    It needs no catalog, so a worker process can be sent the selection alone. Lists and tables of keywords are copies.
    An instance given from Python is returned as it is; for an environment it is a factory and is called.

    Raises:
        PluginError: the target cannot be imported.
        ComponentError: the target raised something that is no MazeError; that is its `__cause__`.
    """
    owner = f"{selection.owner} ({selection.kind} {selection.use!r})"
    if selection.instance is not None:
        if selection.kind != "env" or not callable(selection.instance):
            return selection.instance
        return _call(selection.instance, owner, "building the environment from its factory")
    target, options = _resolve(selection.target, "target", owner), selection.options
    phase = f"building {selection.kind} {selection.use!r}"
    if isinstance(options, Mapping):
        return _call(target, owner, phase, *args, **own_copies(dict(options)))
    return _call(target, owner, phase, *args) if options is None else _call(target, owner, phase, *args, options)


def nearest(word: str, names: Iterable[str], n_names: int = 3) -> tuple[str, ...]:
    """Up to `n_names` names that are spelt like a word, closest first."""
    from difflib import SequenceMatcher  # only errors need it

    wanted, scored = fold(word[:60]), []
    for name in dict.fromkeys(names):
        other = fold(name)
        score = SequenceMatcher(None, wanted, other).ratio()
        if len(wanted) >= 2 and (other.startswith(wanted) or wanted.startswith(other)):
            score = max(score, 0.75)
        if score >= 0.62:
            scored.append((-score, name))
    return tuple(name for _, name in sorted(scored)[:n_names])


def _call(target: Any, owner: str, phase: str, /, *args: Any, **options: Any) -> Any:
    try:
        return target(*args, **options)
    except MazeError as error:
        error.owner = error.owner or owner
        raise
    except (Exception, SystemExit) as error:
        raise ComponentError(f"{phase} failed: {type(error).__name__}: {error}", phase=phase, owner=owner) from error


def _resolve(target: str, role: str, owner: str) -> Any:
    try:
        return load_attribute(target)
    except MazeError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"the {role} {show_target(target)!r} cannot be imported: {one_line(error)}",
            owner=owner,
            help="install what it imports, or correct the plugin's component record",
        ) from error


def _collapse(plugins: tuple[PluginRecord, ...]) -> tuple[CatalogEntry, ...]:
    entries: dict[Component, CatalogEntry] = {}
    for plugin in plugins:
        for component in plugin.components:
            entries.setdefault(component, CatalogEntry(component=component, plugin=plugin))
    order = list(COMPONENT_TYPES)
    return tuple(
        sorted(entries.values(), key=lambda e: (order.index(e.component.kind), e.component.name, e.plugin.name))
    )


def _collision(entries: list[CatalogEntry], location: Location | None) -> PluginError:
    kind, name = entries[0].component.kind, entries[0].component.name
    plugin_names = {entry.plugin.name for entry in entries}
    spellings = [
        entry.qualified_name if len(plugin_names) == len(entries) else f"{entry.plugin.distribution}:{name}"
        for entry in entries
    ]
    key = {"preset": "preset", "vector": "mode"}.get(kind, "use")
    written, ends = ("maze {}", "") if kind == "command" else (f"{key} = {{!r}}", _LEAVE_OUT)
    return PluginError(
        f"{len(entries)} plugins provide a {kind} called {name!r}, so none of them is chosen",
        location=location,
        received=", ".join(str(entry.plugin) for entry in entries),
        help=f"say whose: {' or '.join(map(written.format, spellings))}{ends}",
    )


def is_called(plugin: PluginRecord, name: str) -> bool:
    """Whether a name is, in any spelling, that of a plugin or of its distribution."""
    return fold(name) in (fold(plugin.name), fold(plugin.distribution))


def _excuse(plugin: PluginRecord) -> str:
    what = "is disabled" if plugin.status == "disabled" else f"failed to load: {plugin.cause}"
    return f"plugin {plugin.name} {what}"
