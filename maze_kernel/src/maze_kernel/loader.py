"""Plugins: find them, load each in isolation, and hold what they offer.

Finding reads the metadata of installed distributions and imports nothing. Loading takes one plugin at a time:
import, check the plugin API number, register with pluggy, look for misspelt hooks, run every hook implementation
on its own, validate the records. Whatever goes wrong ends in a `PluginRecord` with status "failed" and its cause
and in one line on standard error; it is fatal only to an experiment that asks for something the plugin offers.
What a plugin does on the side while it loads is undone by `containment.py`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pluggy

from maze_kernel.catalog import Catalog, PluginRecord, nearest
from maze_kernel.components import COMPONENT_TYPES, PLUGIN_API, Component, fold
from maze_kernel.containment import contained
from maze_kernel.foreign_errors import one_line
from maze_kernel.hookspecs import PROJECT_NAME, MazeHooks
from maze_kernel.plugin_files import module_name

ENTRY_POINT_GROUP = "maze.plugins"

_HOOK_KINDS = {"maze_policies": "policy", "maze_workers": "workers"}
HOOKS: dict[str, str] = {
    name: _HOOK_KINDS.get(name, name.removeprefix("maze_").removesuffix("s"))
    for name in vars(MazeHooks)
    if name.startswith("maze_")
}
"""Hook name to the kind of component it returns."""


@attrs.frozen(kw_only=True)
class PluginSource:
    """A plugin that was found and not yet loaded."""

    name: str
    distribution: str
    version: str
    value: str
    """What the entry point says: "package.module" or "package.module:object"; the path of a plugin file."""
    load: Callable[[], Any] = attrs.field(eq=False, repr=False)
    """Imports and returns the plugin object."""


class Kernel:
    """The plugins of one run and the catalog of what they offer. An ordinary object; there is no global one.

    Attributes:
        plugins: one record a plugin that was found, sorted by distribution and name, plugin files last.
        catalog: their components.
    """

    def __init__(self, plugins: Iterable[PluginRecord] = ()) -> None:
        self.plugins = tuple(plugins)
        self.catalog = Catalog(self.plugins)

    @classmethod
    def installed(cls, *, disable: Sequence[str] = (), load: Sequence[str | Path] = (), report: bool = True) -> Kernel:
        """Every installed plugin and the given plugin files.

        Args:
            disable: names of plugins or distributions that are listed but not imported.
            load: Python files to load as plugins, as `[plugins] load` names them.
            report: whether failures and side effects get a line on standard error.
        """
        unwanted = {fold(name) for name in disable}
        records = []
        for source in (*find_plugins(), *(find_file(path) for path in load)):
            is_unwanted = {fold(source.name), fold(source.distribution)} & unwanted
            records.append(_record(source, status="disabled") if is_unwanted else load_plugin(source))
        for record in records if report else ():
            _report(record)
        return cls(records)

    @classmethod
    def of(cls, *plugins: Any) -> Kernel:
        """A kernel with exactly these plugins, modules or objects; it sees nothing that is installed."""
        records = [load_plugin(_given(plugin)) for plugin in plugins]
        for record in records:
            _report(record)
        return cls(records)


def find_plugins() -> tuple[PluginSource, ...]:
    """The installed plugins, sorted by distribution and name, without duplicates; imports none of them."""
    from importlib.metadata import entry_points  # costs more than the rest of this module

    found: dict[tuple[str, str, str], PluginSource] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        told: Any = {"Name": "?", "Version": "?"} if point.dist is None else point.dist.metadata  # read at each access
        name, version = fold(told["Name"]), told["Version"]
        source = PluginSource(name=point.name, distribution=name, version=version, value=point.value, load=point.load)
        found.setdefault((source.distribution, source.name, source.value), source)
    return tuple(found[key] for key in sorted(found))


def find_file(path: str | Path) -> PluginSource:
    """A Python file as a plugin: targets may name it by a stem that is an identifier, or `f"{__name__}:Class"`."""
    file = Path(path).absolute()

    def load() -> Any:
        if not file.is_file():
            raise FileNotFoundError(f"no such file: {file}")
        importlib.invalidate_caches()
        return importlib.import_module(module_name(file))

    return PluginSource(name=file.stem, distribution=str(file), version="", value=str(file), load=load)


def load_plugin(source: PluginSource) -> PluginRecord:
    """Load one plugin in containment; never raises for anything the plugin does, KeyboardInterrupt aside."""
    started = time.perf_counter()
    components: tuple[Component, ...] = ()
    problems: list[str] = []
    module = source.value
    with contained() as notes:
        try:
            plugin = source.load()
            module = getattr(plugin, "__name__", source.value)
            _check_api(plugin)
            components, problems = _components(plugin)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit included: a plugin never ends the process
            problems = [_cause(error)]
    components = tuple(_at_home(component, source, module) for component in components)
    return _record(
        source,
        status="failed" if problems else "active",
        cause="; ".join(problems) or None,
        components=components,
        load_seconds=time.perf_counter() - started,
        module=module,
        notes=tuple(notes),
    )


class _RefusedError(Exception):
    """A plugin breaks a rule of the plugin API; its text is the cause as the user reads it."""


def _check_api(plugin: Any) -> None:
    number = getattr(plugin, "MAZE_PLUGIN_API", None)
    if type(number) is not int:
        stated = "is missing" if number is None else f"is {number!r}, not an integer"
        raise _RefusedError(f"MAZE_PLUGIN_API {stated}; this kernel has plugin API {PLUGIN_API}")
    if number != PLUGIN_API:
        raise _RefusedError(f"it is written for plugin API {number}; this kernel has plugin API {PLUGIN_API}")


class _Hooks(pluggy.PluginManager):
    """The hooks of a plugin but for those that take an argument: pluggy would refuse all of them for one."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """See pluggy; None: no hook."""
        options = None if name.startswith("_") else super().parse_hookimpl_opts(plugin, name)
        return None if options and name in HOOKS and _takes_argument(getattr(plugin, name)) else options


def _takes_argument(function: Callable[..., Any]) -> bool:
    return any(argument.default is argument.empty for argument in inspect.signature(function).parameters.values())


def _components(plugin: Any) -> tuple[tuple[Component, ...], list[str]]:
    """The valid components of all hooks, and one line a problem."""
    hooks = _Hooks(PROJECT_NAME)
    hooks.add_hookspecs(MazeHooks)
    hooks.register(plugin)
    problems = [*_misspelt(hooks), *_slips(plugin)]
    records: list[Component] = []
    implementations = {hook: getattr(hooks.hook, hook).get_hookimpls() for hook in HOOKS}
    for hook, kind in HOOKS.items():
        for implementation in implementations[hook]:
            try:
                records += _validated(kind, implementation.function())
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                problems.append(f"hook {hook}: {_cause(error)}")
    if not any(implementations.values()) and not problems:
        problems.append("it implements no hook")
    return _without_duplicates(records, problems), problems


def _misspelt(hooks: pluggy.PluginManager) -> list[str]:
    try:
        hooks.check_pending()
    except pluggy.PluginValidationError:
        unknown = sorted(name for name in vars(hooks.hook) if not name.startswith("_") and name not in HOOKS)
        near = {name: nearest(name, HOOKS, 1) for name in unknown}
        return [
            f"unknown hook {name}" + (f" (did you mean {near[name][0]}?)" if near[name] else "") for name in unknown
        ]
    return []


def _slips(plugin: Any) -> Iterable[str]:
    """Functions that have a hook's name and are none, which pluggy would overlook without a word."""
    for hook, function in ((hook, getattr(plugin, hook)) for hook in HOOKS if callable(getattr(plugin, hook, None))):
        if not hasattr(function, f"{PROJECT_NAME}_impl"):
            yield f"function {hook} lacks the decorator @hookimpl"
        elif _takes_argument(function):
            code = inspect.unwrap(function).__code__
            yield f"hook {hook}: it takes no arguments ({code.co_filename}:{code.co_firstlineno})"


def _validated(kind: str, result: Any) -> list[Component]:
    if result is None or isinstance(result, Component):
        raise _RefusedError(f"it returned {type(result).__name__}, not an iterable of component records")
    expected = COMPONENT_TYPES[kind]
    records = list(result)
    for record in records:
        if type(record) is not expected:
            raise _RefusedError(f"it returned {type(record).__name__} where {expected.__name__} belongs")
        hash(record)  # a list where a tuple belongs is found here
    return records


def _without_duplicates(records: list[Component], problems: list[str]) -> tuple[Component, ...]:
    """Identical records collapse; of different ones with one name none is kept."""
    distinct = dict.fromkeys(records)
    names = [(record.kind, record.name) for record in distinct]
    clashing = sorted({name for name in names if names.count(name) > 1})
    problems += [f"it provides two different components of kind {kind} called {name!r}" for kind, name in clashing]
    return tuple(record for record in distinct if (record.kind, record.name) not in clashing)


def _cause(error: BaseException) -> str:
    return " ".join(str(error).split()) if isinstance(error, _RefusedError) else one_line(error)


def _at_home(component: Component, source: PluginSource, module: str) -> Component:
    """Targets of a plugin file that name it by its stem, turned into the module it was imported as."""
    if module != module_name(source.value):
        return component
    short = f"{source.name}:"
    changes = {
        field: f"{module}:{target.removeprefix(short)}"
        for field, target in component.targets().items()
        if target.startswith(short)
    }
    return attrs.evolve(component, **changes)


def _given(plugin: Any) -> PluginSource:
    name = getattr(plugin, "__name__", type(plugin).__name__)
    return PluginSource(name=name, distribution=name, version="", value=name, load=lambda: plugin)


def _record(source: PluginSource, **details: Any) -> PluginRecord:
    details.setdefault("module", source.value)
    return PluginRecord(name=source.name, distribution=source.distribution, version=source.version, **details)


def _report(record: PluginRecord) -> None:
    if record.status == "failed":
        print(f"maze: plugin {record.name} ({record}) failed to load: {record.cause}", file=sys.stderr)
    for note in record.notes:
        print(f"maze: plugin {record.name} ({record}) {note}", file=sys.stderr)
