"""What a user reads of an error in their environment: the traceback of their code, and the command that plays it.

Frames of the kernel, of the runtime, of Gymnasium's wrappers and of every package that says `__tracebackhide__ = True`
are left out. Where an exception comes from a library, the frame that called it stays.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

from maze_kernel.errors import MazeError, RequestError
from maze_kernel.shown_command import shown_command

ALONE = "run this environment alone with that seed to see it fail"
"""The next step after an environment raised; who knows the experiment's file puts the command in its place."""

_FRAMEWORK = ("maze_kernel", "maze_runtime")


def user_traceback(error: BaseException) -> str:
    """The traceback of an exception and of those behind it, as text.

    An exception that was raised in framework code altogether is shown with all of its frames.
    """
    described = traceback.TracebackException.from_exception(error)
    hidden, libraries = _hidden_folders(), _library_folders()
    waiting: list[traceback.TracebackException | None] = [described]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            part.stack = traceback.StackSummary.from_list(_shown(list(part.stack), hidden, libraries))
            waiting += [part.__cause__, part.__context__]
    return "".join(described.format())


def traceback_of(error: BaseException) -> str:
    """What a log should hold of an error: the traceback of the foreign exception behind it; "" where there is none."""
    if not isinstance(error, MazeError):
        return user_traceback(error)
    if error.user_traceback or error.remote_traceback:
        return error.user_traceback or error.remote_traceback or ""
    cause = error.__cause__
    if cause is None or isinstance(cause, MazeError) or isinstance(error, RequestError):
        return ""
    return user_traceback(cause)


def see_alone(error: MazeError, path: str, overrides: Sequence[str] = ()) -> None:
    """Name the command that plays the environment of an experiment file with the seed that an error speaks of.

    Args:
        error: gets the command as its help, or behind it.
        path: of the experiment; nothing happens where it is no file.
        overrides: `--set` items that it was read with.
    """
    if error.seed is None or not Path(path).is_file():
        return
    command = shown_command("maze", "check", path, "--steps", 1000, "--seed", error.seed, settings=overrides)
    others = "" if error.help in (None, ALONE) else f"{error.help}; "
    error.help = f"{others}see the environment alone with that seed: {command}"


def _shown(
    frames: list[traceback.FrameSummary], hidden: tuple[str, ...], libraries: tuple[str, ...]
) -> list[traceback.FrameSummary]:
    own = [index for index, frame in enumerate(frames) if not _is_hidden(frame.filename, hidden)]
    if not own:
        return frames
    if own[0] and frames[own[0]].filename.startswith(libraries):
        own.insert(0, own[0] - 1)
    return [frames[index] for index in own]


def _is_hidden(file: str, hidden: tuple[str, ...]) -> bool:
    gym, _, rest = file.rpartition(f"gymnasium{os.sep}")
    if gym and file.startswith(_library_folders()):
        return not rest.startswith(f"envs{os.sep}") or rest.endswith("registration.py")
    return file.startswith(hidden)


def _hidden_folders() -> tuple[str, ...]:
    marked = [
        name
        for name, module in list(sys.modules.items())
        if "." not in name and (name in _FRAMEWORK or getattr(module, "__tracebackhide__", False) is True)
    ]
    files = [getattr(sys.modules[name], "__file__", None) for name in marked]
    return tuple(str(Path(file).parent) + os.sep for file in files if file)


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (*(paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")), "<frozen ")
