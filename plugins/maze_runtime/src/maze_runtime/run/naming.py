"""What the bare name of an environment stands for, what its runs are called, and the names of components."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from maze_kernel.catalog import Catalog
    from maze_kernel.loader import Kernel

_ENV_ID = re.compile(r"([\w.]+:)?([\w.-]+/)?[\w.-]+-v\d+")
_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def names_environment(name: str) -> bool:
    """Whether a text is an id ("CartPole-v1", "ale_py:ALE/Pong-v5"), an import path, or an installed environment."""
    if _ENV_ID.fullmatch(name) or _IMPORT_PATH.fullmatch(name):
        return True
    from maze_kernel.loader import Kernel

    return any(entry.component.name == name for entry in Kernel.installed(report=False).catalog.entries("env"))


def name_of_default(catalog: Catalog, kind: Literal["env", "trainer", "model", "workers", "dataset"]) -> str:
    """The name of the default component of a kind, which nobody wrote: with its plugin where others have that name.

    Raises:
        PluginError: there is none, or there are several.
    """
    entry = catalog.default(kind)
    name = entry.component.name
    return name if len(catalog.named(name, kind)) == 1 else entry.qualified_name


def bare_name(use: str) -> str:
    """The name of a component without its plugin; import paths as they are.

    >>> bare_name("maze-distributions:beta"), bare_name("my_package.module:Beta")
    ('beta', 'my_package.module:Beta')
    """
    plugin, _, name = use.rpartition(":")
    return use if "." in plugin else name


def environment_table(kernel: Kernel, name: str) -> dict[str, str]:
    """The table `[env]` of a name: that of a component, an id for the default one, or an import path.

    A class of Gymnasium is an id, too: the component that takes ids knows what such classes are called with.

    Raises:
        PluginError: it is an id, and no plugin takes ids.
    """
    if _ENV_ID.fullmatch(name) or _is_gymnasium_class(name):
        return {"use": name_of_default(kernel.catalog, "env"), "id": name}
    return {"use": name}


def _is_gymnasium_class(name: str) -> bool:
    if not _IMPORT_PATH.fullmatch(name):
        return False
    import gymnasium

    from maze_kernel.config.choices import import_target
    from maze_kernel.errors import RequestError

    import_from(Path.cwd())
    try:
        found = import_target(name)
    except RequestError:  # whoever builds it says what is wrong with it
        return False
    return isinstance(found, type) and issubclass(found, gymnasium.Env)


def import_from(folder: Path) -> None:
    """Let modules of a folder be imported, here and in worker processes; it comes last, so that it hides nothing."""
    if (path := str(folder.resolve())) not in sys.path:
        sys.path.append(path)


def title_of(name: str) -> str:
    """A name of an experiment: "cartpole-v1" of "CartPole-v1"."""
    return re.sub(r"[^a-z0-9]+", "-", name.rpartition(":")[2].lower()).strip("-") or "run"
