"""What a node has installed, and whether that is what the caller has."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable, Mapping

from maze_kernel.errors import RequestError
from maze_runtime.workers.modules import is_importable

_COMPARED = ("torch", "numpy")


def versions_here() -> dict[str, str]:
    """Versions of Python, of all of Maze's distributions, torch and NumPy in this process."""
    found = (distribution.metadata["Name"] or "" for distribution in importlib.metadata.distributions())
    names = {name.lower().replace("_", "-") for name in found}
    return versions_of(name for name in names if name in _COMPARED or name.startswith("maze-"))


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Versions of Python and of these distributions in this process, without those that are missing."""
    found = {"Python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def inspect(names: Iterable[str], packages: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """What the node on which this runs has: versions of these distributions, and which of these packages it finds."""
    return versions_of(names), {package for package in packages if is_importable(package)}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """One line each for what the other side lacks or has in another version.

    >>> differences({"torch": "2.6", "numpy": "2.0"}, {"torch": "2.7", "maze-gym": "0.1"})
    ['numpy: 2.0 here, none there', 'torch: 2.6 here, 2.7 there']
    """
    return [
        f"{name}: {version} here, {there.get(name, 'none')} there"
        for name, version in sorted(here.items())
        if there.get(name) != version
    ]


def refusal(node: str, differing: list[str]) -> RequestError:
    """The error that names what differs on a node."""
    return RequestError(
        f"node {node} of the Ray cluster has other versions than this process",
        received="; ".join(differing),
        expected="the same versions of Python, Maze, torch and NumPy everywhere",
        owner="maze-ray",
        help="start the command and every node from one image or one lock file",
    )


def check_versions(expected: Mapping[str, str], node: str) -> None:
    """Compare this process with the caller.

    Raises:
        RequestError: they differ.
    """
    differing = differences(expected, versions_of(set(expected) - {"Python"}))
    if differing:
        raise refusal(node, differing)
