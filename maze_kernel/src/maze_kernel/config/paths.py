"""Names and paths that an experiment gives and a run writes to: they stay inside the run directory.

`check_run_name` guards the experiment's `name`, `inside_run_dir` is the validator of every option that becomes a path,
and `path_inside` resolves one at run time, when symbolic links can be looked at.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from maze_kernel.errors import RequestError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*", re.ASCII)
_MAX_NAME = 100
_MAX_PATH = 200
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})
_OWN_FILES = frozenset(
    {"experiment.toml", "run.json", "checkpoints", "normalization.json", "best", "last", "log.txt", "state.json"}
)
"""What the kernel writes at the top of a run directory."""


def check_run_name(_instance: object, _attribute: object, name: str) -> None:
    """Attrs validator of the experiment's name, which becomes a folder.

    Raises:
        ValueError: the name could leave its folder or is no portable file name.
    """
    if len(name) > _MAX_NAME:
        raise ValueError(f"the name is longer than {_MAX_NAME} characters")
    if _NAME.fullmatch(name) is None or name.endswith(".") or name.split(".")[0].lower() in _DEVICES:
        raise ValueError("the name becomes a folder: letters, digits, - _ and . only, beginning with a letter or digit")


def inside_run_dir(_instance: object, _attribute: object, value: Any) -> None:
    """Attrs validator of an option that becomes a path inside the run directory. None passes.

    Forward slashes part folders. Refused are absolute paths, `..`, drive letters, backslashes, control characters,
    names a system reserves, and the kernel's own files.

    Raises:
        ValueError: the path could leave the run directory or overwrite what the kernel keeps there.
    """
    if value is None:
        return
    text = str(value)
    if not text or len(text) > _MAX_PATH:
        raise ValueError(f"the path must have 1 to {_MAX_PATH} characters")
    if text.startswith(("/", "~")) or "\\" in text or re.match(r"[A-Za-z]:", text):
        raise ValueError("the path must be relative to the run directory, with forward slashes")
    parts = text.split("/")
    if ".." in parts:
        raise ValueError("the path must stay inside the run directory: no ..")
    for part in parts:
        if _PART.fullmatch(part) is None or part != part.rstrip(". "):
            raise ValueError(f"{part!r} in the path is not letters, digits, - _ . or spaces")
        if part.split(".")[0].lower() in _DEVICES:
            raise ValueError(f"{part!r} in the path is a name that some systems reserve")
    if parts[0].lower() in _OWN_FILES:
        raise ValueError(f"{parts[0]!r} in the run directory belongs to the kernel")


def path_inside(run_dir: Path, relative: str | Path) -> Path:
    """The path of `relative` below the run directory, checked against symbolic links as they are now.

    Raises:
        RequestError: the path is not allowed, or a link on the way leads out of the run directory.
    """
    text = PurePosixPath(relative).as_posix() if isinstance(relative, Path) else relative
    try:
        inside_run_dir(None, None, text)
    except ValueError as error:
        raise RequestError(
            f"{text!r} cannot be written to: {error}", help="choose a path inside the run directory"
        ) from None
    root = run_dir.resolve()
    path = (root / text).resolve()
    if not path.is_relative_to(root) or path == root:
        raise RequestError(
            f"{text!r} cannot be written to: a link leads out of the run directory",
            received=str(path),
            expected=f"a path below {root}",
            help="remove the link or choose another path",
        )
    return path
