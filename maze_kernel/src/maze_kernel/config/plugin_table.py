"""The `[plugins]` table, which is read before the rest because it decides what the rest may name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_kernel.catalog import is_called, nearest
from maze_kernel.config.choices import KERNEL_OWNER
from maze_kernel.config.experiment import PluginOptions
from maze_kernel.config.fields import fields_of_class
from maze_kernel.config.positions import KeyPath
from maze_kernel.config.problems import Problems
from maze_kernel.config.reading import INVALID, Reader, Scope
from maze_kernel.config.source import files_beside
from maze_kernel.config.structure import structure
from maze_kernel.errors import MazeWarning, RequestError

if TYPE_CHECKING:
    from maze_kernel.loader import Kernel

_STATUS = {"failed": "failed to load", "disabled": "is disabled"}


def read_plugin_table(data: Mapping[str, Any], problems: Problems) -> PluginOptions:
    """The table, with its wrong keys left out so that the rest of the file can still be read."""
    if "plugins" not in data:
        return PluginOptions()
    table = data["plugins"]
    reader = Reader(problems=problems, choose=_no_choice, choices=lambda _kind: ())
    scope = Scope(path=("plugins",), owner=KERNEL_OWNER)
    options = structure(table, PluginOptions, scope, reader)
    if options is not INVALID:
        return options  # type: ignore[no-any-return]
    good = {}
    for field in fields_of_class(PluginOptions).fields if isinstance(table, Mapping) else ():
        if field.name in table:
            value = structure(table[field.name], field.annotation, scope.at(field.name), reader.scratch())
            if value is not INVALID:
                good[field.name] = value
    return PluginOptions(**good)


def plugin_files(plugins: PluginOptions, folder: Path | None, problems: Problems) -> list[Path]:
    """The files of `load`, which are given relative to the experiment's folder; none are allowed without a folder."""
    files: list[Path] = []
    if folder is None:
        if plugins.load:
            problems.add(
                ("plugins", "load"),
                "plugin files are not loaded for a file inside a run directory",
                at_value=True,
                received=", ".join(plugins.load),
                owner=KERNEL_OWNER,
                help="name the experiment file too: maze train FILE --resume RUN, other commands by --experiment FILE",
            )
        return files
    for index, name in enumerate(plugins.load):
        if (path := _file(name, folder)) is not None:
            files.append(path)
            continue
        problems.add(
            ("plugins", "load", index),
            f"there is no plugin file {folder / name}",
            at_value=True,
            expected="a Python file beside the experiment",
            owner=KERNEL_OWNER,
            nearest=files_beside(folder / name, ".py"),
            help="paths are relative to the experiment file",
        )
    return files


def check_required(plugins: PluginOptions, kernel: Kernel, problems: Problems) -> None:
    """Every distribution of `require` is installed, loaded, and of a version in its range; warns of unknown others."""
    for name in plugins.disable:
        if not any(is_called(record, name) for record in kernel.plugins):
            near = nearest(name, [record.name for record in kernel.plugins])
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            warnings.warn(f"[plugins] disable names {name}, which is not installed{hint}", MazeWarning, stacklevel=2)
    for index, text in enumerate(plugins.require):
        path: KeyPath = ("plugins", "require", index)
        try:
            _check_requirement(text, kernel)
        except RequestError as error:
            error.location = problems.origin.value(path)
            problems.add_error(path, error)


def _check_requirement(text: str, kernel: Kernel) -> None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise RequestError(
            f'"{text[:60]}" does not name a distribution',
            received=str(error).splitlines()[0],
            expected='a name and a version range, e.g. "maze-ppo >=0.1,<0.2"',
            owner=KERNEL_OWNER,
            help="write the range as in a requirements file",
        ) from None
    if not (records := [record for record in kernel.plugins if is_called(record, requirement.name)]):
        names = {record.distribution for record in kernel.plugins}
        raise RequestError(
            f"this experiment requires {requirement.name}, and no plugin of that name is installed",
            expected=text,
            owner=KERNEL_OWNER,
            nearest=nearest(requirement.name, sorted(names)),
            help=f'pip install "{text}" if it is a plugin; other packages are not looked for',
        )
    record = records[0]
    if record.status != "active":
        raise RequestError(
            f"this experiment requires {requirement.name}, which {_STATUS[record.status]}",
            received=record.cause,
            owner=f"{record.distribution} {record.version}",
            help="maze list-plugins shows what is installed",
        )
    if record.version and not requirement.specifier.contains(record.version, prereleases=True):
        raise RequestError(
            f"this experiment requires another version of {requirement.name}",
            received=f"{record.distribution} {record.version}",
            expected=f"{requirement.name} {requirement.specifier}",
            owner=KERNEL_OWNER,
            help=f'pip install "{text}"',
        )


def _no_choice(_kind: str, _use: str, _location: object) -> Any:
    raise RequestError("[plugins] selects no component")


def _file(name: str, folder: Path) -> Path | None:
    try:
        path = folder / name
        return path if path.suffix == ".py" and path.is_file() else None
    except (OSError, ValueError):
        return None
