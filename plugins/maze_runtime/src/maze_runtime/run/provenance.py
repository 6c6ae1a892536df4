"""Where a run came from: versions, plugins, command line, platform and the state of the source tree."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from maze_kernel.catalog import PluginRecord

_PACKAGES = ("maze-kernel", "numpy", "torch", "gymnasium", "safetensors")


@attrs.frozen(kw_only=True)
class PluginOrigin:
    """One plugin that was found when the run started, as `PluginRecord` says."""

    name: str
    distribution: str
    version: str
    status: str


@attrs.frozen(kw_only=True)
class SourceTree:
    """The git repository of the current directory; `dirty`: tracked files had changes, None: unknown."""

    commit: str
    dirty: bool | None


@attrs.frozen(kw_only=True)
class Provenance:
    """Everything about the machine and the software that a reader of `run.json` may ask for."""

    command_line: tuple[str, ...] = ()
    platform: str = ""
    python: str = ""
    packages: Mapping[str, str | None] = attrs.field(factory=dict)
    plugins: tuple[PluginOrigin, ...] = ()
    git: SourceTree | None = None


def provenance(plugins: Sequence[PluginRecord]) -> Provenance:
    """The provenance of a run that starts now in this process."""
    return Provenance(
        command_line=tuple(sys.argv),
        platform=platform.platform(),
        python=platform.python_version(),
        packages={name: _version(name) for name in _PACKAGES},
        plugins=tuple(
            PluginOrigin(name=p.name, distribution=p.distribution, version=p.version, status=p.status) for p in plugins
        ),
        git=_git(),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git() -> SourceTree | None:
    """Commit of the current directory's repository and whether it has changes; None outside of one."""
    commit = _git_output("rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git_output("status", "--porcelain", "--untracked-files=no")
    return SourceTree(commit=commit, dirty=None if changes is None else bool(changes))


def _git_output(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
