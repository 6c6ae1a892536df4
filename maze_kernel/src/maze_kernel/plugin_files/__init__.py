"""Single Python files loaded as plugins, under module names that any process can import.

A file that an experiment names under `[plugins] load` becomes the module `maze_kernel.plugin_files.file_<hex>`,
where `<hex>` spells the file's absolute path. The name alone says what to load, so a worker process that meets it
in a target or in a shipped class imports the same file with nothing handed over, two files of the same name in
one process stay apart, and no directory has to join `sys.path`. Importing this package installs the finder.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_PREFIX = f"{__name__}.file_"


def module_name(path: str | Path) -> str:
    """The module name under which a plugin file is imported.

    >>> path_of(module_name("/tmp/my_env.py"))
    PosixPath('/tmp/my_env.py')
    """
    return _PREFIX + str(Path(path).absolute()).encode("utf-8", "surrogateescape").hex()


def path_of(name: str) -> Path | None:
    """The file behind a module name made by `module_name`; None for any other name."""
    if not name.startswith(_PREFIX):
        return None
    try:
        return Path(bytes.fromhex(name.removeprefix(_PREFIX)).decode("utf-8", "surrogateescape"))
    except ValueError:
        return None


def show_target(target: str) -> str:
    """A target as a record names it: in a plugin file by the stem of that, not by its module."""
    module, _, attribute = target.partition(":")
    file = path_of(module)
    return target if file is None else f"{file.stem}:{attribute}"


class PluginFileFinder:
    """Finds modules named by `module_name` and nothing else."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The import system's question; None leaves it to the other finders."""
        file = path_of(name)
        if file is None or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(name, file)


if not any(getattr(finder, "__name__", None) == "PluginFileFinder" for finder in sys.meta_path):
    sys.meta_path.append(PluginFileFinder)
