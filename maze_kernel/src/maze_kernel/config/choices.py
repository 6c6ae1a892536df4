"""What `use = "..."` stands for: a component of the catalog, or any importable class or function."""

from __future__ import annotations

import importlib
import re
import sys
from functools import reduce
from typing import Any

import attrs

from maze_kernel import __version__
from maze_kernel.catalog import nearest
from maze_kernel.components import COMPONENT_TYPES, DatasetComponent, EnvComponent
from maze_kernel.config.fields import OptionFields, fields_of_class, fields_of_target
from maze_kernel.config.origin import COMMAND_LINE
from maze_kernel.config.reading import ComponentChoice
from maze_kernel.errors import Location, MazeError, RequestError
from maze_kernel.foreign_errors import one_line, place_of
from maze_kernel.shown_command import shown_command

KERNEL_OWNER = f"maze-kernel {__version__}"

IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@attrs.frozen
class Choices:
    """Answers `use` from one catalog.

    Attributes:
        catalog: a kernel's catalog.
        import_paths: whether `module:Class` may be imported, for a file that is the user's own; what stands on the
            command line always may.
    """

    catalog: Any
    import_paths: bool = True

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(entry.component.name for entry in self.catalog.entries(kind)))

    def default(self, kind: str, of: type[DatasetComponent | EnvComponent] = DatasetComponent) -> str | None:
        """What a table without `use` means; None where it has to say, or several plugins offer a default."""
        components = [entry.component for entry in self.catalog.entries(kind)]
        names = [c.name for c in components if isinstance(c, of) and c.default]
        return names[0] if len(names) == 1 else None

    def choose(self, kind: str, use: str, location: Location | None) -> ComponentChoice:
        """The target, the owner and the options of one `use`.

        Raises:
            RequestError: nothing has that name, or it cannot be imported.
        """
        if IMPORT_PATH.fullmatch(use) and not self.catalog.names_plugin(use):
            return self._imported(kind, use, location)
        entry = self.catalog.find(kind, use, location=location)
        file = entry.plugin.distribution
        return ComponentChoice(
            target=entry.component.target,
            owner=str(entry.plugin),
            fields=fields_of_entry(self.catalog, entry, location=location),
            describe=shown_command("maze", "describe", kind, use, *(("--load", file) if file.endswith(".py") else ())),
            summary=entry.component.summary,
        )

    def check_text(self, text: str, location: Location | None) -> None:
        """Refuse an option that may be an import path, where these are forbidden; components import some themselves.

        Raises:
            RequestError: naming the text.
        """
        typed_now = location is not None and location.file == COMMAND_LINE
        if self.import_paths or typed_now or not IMPORT_PATH.fullmatch(text) or self.catalog.names_plugin(text):
            return
        raise RequestError(
            f"{text} names code to import, which is not done for a file inside a run directory",
            location=location,
            help="name the experiment file too: maze train FILE --resume RUN, other commands by --experiment FILE",
        )

    def _imported(self, kind: str, use: str, location: Location | None) -> ComponentChoice:
        self.check_text(use, location)
        target = import_target(use, location)
        fields = target_fields(target, use, owner=use, location=location)
        describe = f"maze describe {kind} {use}" if kind in COMPONENT_TYPES else f"the signature of {use}"
        return ComponentChoice(target=use, owner=use, fields=fields, describe=describe)


def fields_of_entry(catalog: Any, entry: Any, *, location: Location | None = None) -> OptionFields:
    """The options of an installed component.

    Raises:
        RequestError: its options class or its target cannot be imported.
    """
    try:
        options_class = catalog.options_class(entry)
        target = catalog.load(entry) if options_class is None else None
    except MazeError as error:
        error.location = error.location or location
        raise
    if options_class is not None:
        return fields_of_class(options_class)
    return target_fields(target, entry.component.target, owner=str(entry.plugin), location=location)


def target_fields(target: Any, use: str, *, owner: str, location: Location | None) -> OptionFields:
    """The options of an imported class or function."""
    if not callable(target):
        raise RequestError(
            f"{use} is not a class or function",
            location=location,
            received=type(target).__name__,
            owner=owner,
            help="name a class, or a function that builds the component",
        )
    try:
        return fields_of_target(target)
    except TypeError as error:
        raise RequestError(f"{use}: {error}", location=location, owner=owner, help="give it a signature") from None


def import_target(use: str, location: Location | None = None) -> Any:
    """Import "module:attribute", or "module", saying what was wrong if it cannot be.

    Raises:
        RequestError: there is no such module or attribute, or it fails: with file and line of the user's code.
    """
    name, _, attribute = use.partition(":")
    near: tuple[str, ...] = ()
    help_, received = '"module:Class" names a class or function of that module', None
    try:
        module = importlib.import_module(name)
        return reduce(getattr, attribute.split("."), module) if attribute else module
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        names = [other for other in dir(sys.modules.get(name)) if not other.startswith("_")]
        place = place_of(error)
        is_absent = name in sys.modules and isinstance(error, AttributeError)
        if missing and f"{name}.".startswith(f"{missing}."):
            what = f"there is no module {missing}"
            help_ = "put it beside the experiment file, or install the package that holds it"
        elif is_absent and not (place and attribute.split(".")[0] in names):
            what = f"module {name} has no {attribute}"
            near = tuple(f"{name}:{other}" for other in nearest(attribute, names))
        else:
            what, received = f"importing {name} failed", one_line(error)
            line = "that line" if place else name
            help_ = f"{f'install {missing}, or ' if missing else ''}correct {line}; --traceback shows more"
        raise RequestError(what, location=location, received=received, nearest=near, help=help_) from error
