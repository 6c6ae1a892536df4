"""A new plugin from the example: what `maze new-plugin NAME` does.

The template is `examples/maze_hello`; `plugin_template` is a link to it, and a wheel holds its files.
"""

from __future__ import annotations

import keyword
import re
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from maze_kernel.errors import RequestError

TEMPLATE = Path(__file__).parent / "plugin_template"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LEFT_OUT = {"__pycache__", "dist", "build", "runs", ".pytest_cache"}


def new_plugin(name: str, directory: str | Path = ".") -> Path:
    """Copy the example plugin under a new name.

    Args:
        name: of the distribution, lower-case words joined by hyphens: "maze-robots". The package is
            `maze_robots`, and its components are called `robots-clip`, `robots-residual` and `robots-search`.
        directory: where the new folder is made.

    Returns:
        The new folder, named like the package.

    Raises:
        RequestError: the name cannot be used, what is installed has it, or the folder exists or cannot be written.
    """
    package = name.replace("-", "_")
    folder = Path(directory) / package
    _check(name, package, folder)
    if folder.exists():
        raise RequestError(f"{folder} exists already", help="choose another name, or --out another folder")
    for source in sorted(TEMPLATE.rglob("*")):
        relative = source.relative_to(TEMPLATE)
        if source.is_file() and not _LEFT_OUT.intersection(relative.parts):
            target = folder / _renamed(str(relative), name)
            text = _renamed(source.read_text(encoding="utf-8"), name)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            except OSError as error:
                raise RequestError(f"{folder} cannot be written: {error}", help="name another folder: --out") from error
    return folder


def _check(name: str, package: str, folder: Path) -> None:
    what = f"a plugin cannot be called {name!r}"
    if _NAME.fullmatch(name) is None:
        raise RequestError(what, expected="lower-case words joined by hyphens, e.g. 'maze-robots'")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or _is_taken(name, package, folder):
        why = "Python, or something that is installed, has that name"
        raise RequestError(f"{what}: {why}", help=f"choose another one, such as 'my-{name}'")


def _is_taken(name: str, package: str, folder: Path) -> bool:
    """Whether something else of that name is installed: not what `pip install -e` of this very folder left."""
    try:
        origin = metadata.distribution(name).read_text("direct_url.json") or ""
    except metadata.PackageNotFoundError:
        found = find_spec(package)
        return found is not None and found.origin is not None  # a mere folder beside the user has no origin
    return f'"{folder.resolve().as_uri()}"' not in origin


def _renamed(text: str, name: str) -> str:
    short = name.removeprefix("maze-")
    replacements = {"maze-hello": name, "maze_hello": name.replace("-", "_"), "hello": short}
    return re.sub("|".join(replacements), lambda match: replacements[match.group()], text)
