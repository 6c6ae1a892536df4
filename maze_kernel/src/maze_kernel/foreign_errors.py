"""What is said of exceptions that are not Maze's: in one line, with the line of the user's code they came from."""

from __future__ import annotations

import contextlib
import sysconfig
import traceback
from pathlib import Path
from types import FrameType

from maze_kernel.errors import MazeError
from maze_kernel.plugin_files import path_of


def one_line(error: BaseException) -> str:
    """Type, message and place: "NameError: name 'x' is not defined (/home/me/my_env.py:3)"."""
    said = error.what if isinstance(error, MazeError) else error.msg if isinstance(error, SyntaxError) else error
    text, place = " ".join(str(said).split()), place_of(error)
    return type(error).__name__ + (f": {text}" if text else "") + (f" ({place})" if place else "")


def place_of(error: BaseException) -> str:
    """File and line of the innermost code of the user's, else of the innermost that is not the kernel's; "": none."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return f"{error.filename}:{error.lineno}"
    found = [(frame, f"{frame.f_code.co_filename}:{line}") for frame, line in traceback.walk_tb(error.__traceback__)]
    ours = (str(Path(__file__).parent), "<frozen")
    places = [place for _, place in found if not place.startswith(ours) and "importlib" not in place]
    return ["", *places, *(place for frame, place in found if is_users(frame))][-1]


def module_of(frame: FrameType) -> str:
    """The name of the module that a frame runs in."""
    return str(frame.f_globals.get("__name__", ""))


def is_users(frame: FrameType) -> bool:
    """Whether a frame is of a plugin file, or of a module that is neither installed nor Python's."""
    from importlib import metadata  # only errors need it

    file, module = frame.f_code.co_filename, module_of(frame)
    if path_of(module) is not None:
        return True
    if file.startswith(("<", sysconfig.get_path("stdlib"))) or "site-packages" in file or "dist-packages" in file:
        return False
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
        return not metadata.version(module.partition(".")[0])
    return True
