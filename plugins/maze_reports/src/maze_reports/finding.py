"""Finds run directories in what a user names: runs, folders of runs, sweeps."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from maze_kernel.catalog import nearest
from maze_kernel.errors import MazeWarning, RequestError


def find_runs(paths: Sequence[Path | str]) -> list[Path]:
    """The run directories in folders, each once: in the order given, those of one folder sorted by path.

    Args:
        paths: each a run directory, or a folder with runs or links to them at any depth; warns of folders that cannot
            be read.

    Raises:
        RequestError: a folder does not exist, or there is no run in any of them.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise _missing(path)
        for run in _runs_below(path):
            found.setdefault(run.resolve(), run)
    if not found:
        raise RequestError(
            f"there are no runs in {', '.join(map(str, paths))}",
            expected="a folder with run.json, or one that holds such folders",
            help="maze train FILE makes a run",
        )
    return list(found.values())


def _runs_below(path: Path) -> list[Path]:
    """What lies inside of a run is the run's; links are followed, into each folder once."""
    runs: list[Path] = []
    seen: set[str] = set()
    for folder, below, files in os.walk(path, followlinks=True, onerror=_unreadable):
        place = os.path.realpath(folder)
        if "run.json" in files:
            runs.append(Path(folder))
        if "run.json" in files or place in seen:
            below.clear()
        seen.add(place)
    return sorted(runs)


def _unreadable(error: OSError) -> None:
    warnings.warn(f"a folder was left out: {error}", MazeWarning, stacklevel=2)


def _missing(path: Path) -> RequestError:
    beside = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
    return RequestError(
        f"there is no folder {path}",
        nearest=tuple(str(path.with_name(name)) for name in nearest(path.name, beside)),
        help="maze train FILE makes a run below runs/; maze list-runs FOLDER shows those of another folder",
    )
