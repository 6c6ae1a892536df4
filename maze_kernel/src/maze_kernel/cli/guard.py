"""From exceptions to exit codes: what the user sees when something ends a command early.

A `MazeError` is printed without a traceback; anything else shows its traceback, the plugin and the phase it came
from. A reader that closes the pipe (`maze list-plugins | head -1`) is no failure; a full disk is one, said in a line.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback as tracebacks
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any, TextIO

import typer

from maze_kernel.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EnvError, ExperimentError, MazeError
from maze_kernel.foreign_errors import is_users, module_of
from maze_kernel.loader import find_plugins

TRACEBACK = inspect.Parameter(
    "traceback",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--traceback", help="Show the traceback even of an error raised on purpose.")
    ],
)
"""The option every command has."""

MAX_LINES = 48
"""What is said of an error in full takes one screen."""


def guarded(command: Callable[..., int | None], name: str) -> Callable[..., None]:
    """Wrap a command: its return value is the exit code (None: 0), its exceptions are rendered.

    The wrapped command has one option more, `--traceback`.
    """

    @functools.wraps(command)
    def run(*args: Any, traceback: bool = False, **kwargs: Any) -> None:
        if (code := _exit_code(lambda: command(*args, **kwargs), f"maze {name}", traceback)) != EXIT_DONE:
            raise typer.Exit(code)

    signature = inspect.signature(command, eval_str=True)
    parameters = (*signature.parameters.values(), TRACEBACK)
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _exit_code(command: Callable[[], int | None], phase: str, with_traceback: bool) -> int:
    try:
        code = command() or EXIT_DONE
        sys.stdout.flush()
        return code
    except (typer.Exit, typer.BadParameter):
        raise
    except MazeError as error:
        _show_maze_error(error, with_traceback)
        return error.exit_code
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # a component that ends the process fails, too
        if (ended := code_of_end(error)) is not None:
            return ended
        _show_traceback(error)
        print(f"error: {type(error).__name__} in {_origin(error)} during {phase}", file=sys.stderr)
        return EXIT_FAILED


def code_of_end(error: BaseException) -> int | None:
    """The exit code of Ctrl-C, or of an output that takes no more, said in a line; None of what a component did."""
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    if not isinstance(error, OSError) or error.filename is not None or not discard_if_lost(sys.stdout):
        return None
    if isinstance(error, BrokenPipeError):
        return EXIT_DONE
    print(f"error: standard output cannot be written ({error}); all else is done and whole", file=sys.stderr)
    return EXIT_FAILED


def _show_traceback(error: BaseException) -> None:
    """From the command on, without the frames that are here."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    tracebacks.print_exception(type(error), error, frames)


def _show_maze_error(error: MazeError, with_traceback: bool) -> None:
    """Tracebacks first, that of another process once and in full, then the message, which is what the user reads."""
    cause, text = error.__cause__, error.user_traceback or error.remote_traceback
    if with_traceback:
        _show_traceback(error)  # that of the other process, too
        print(file=sys.stderr)
    elif text:
        print(f"{text.rstrip()}\n", file=sys.stderr)
    elif cause and not isinstance(cause, MazeError) and (isinstance(error, EnvError) or hasattr(error, "phase")):
        tracebacks.print_exception(cause)
        print(file=sys.stderr)
    print_error(error)


def print_error(error: MazeError, stream: TextIO | None = None) -> None:
    """Print the rendered error, in colour on a terminal."""
    stream = stream or sys.stderr
    lines = message_lines(error)
    if not stream.isatty():
        print("\n".join(lines), file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line, style=_style(line.strip())))


def message_lines(error: MazeError) -> list[str]:
    """The lines of the message; of many problems as many as fit on a screen, and one line for each of the others.

    The traceback of another process is not among them: it has no fixed length.
    """
    problems = list(error.problems) if isinstance(error, ExperimentError) else [error]
    lines: list[str] = []
    for shown, problem in enumerate(problems):
        block = [_cut(line) for line in problem.render(remote=False).splitlines()]
        if lines and len(lines) + len(block) >= MAX_LINES:
            return [*lines, "", *(_cut(f"error: {left.what} ({left.location})") for left in problems[shown:])]
        lines += ["", *block] if lines else block
    return lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} lines left out"]


def _cut(line: str) -> str:
    return line if len(line) <= 400 else f"{line[:399]}…"


def _style(text: str) -> str:
    styles = {"error:": "bold red", "help:": "bold cyan", "-->": "blue", "= ": "blue"}
    style = next((style for start, style in styles.items() if text.startswith(start)), "")
    return "red" if text.startswith("|") and "^" in text else style


def _origin(error: BaseException) -> str:
    """Where a foreign exception came from: the innermost frame that is the user's own, else that of a plugin.

    What is called wrongly fails deeper down. Frames of the standard library and of libraries say little. A plugin is a
    distribution with a `maze.plugins` entry point; without such frames the innermost of the kernel is named.
    """
    frames = [frame for frame, _ in tracebacks.walk_tb(error.__traceback__)]
    owners = {source.value.partition(":")[0].partition(".")[0]: source for source in find_plugins()}
    if of_user := [frame.f_code for frame in frames if is_users(frame)]:
        return f"{of_user[-1].co_filename}, {of_user[-1].co_qualname}"
    for frame in reversed(frames):
        package = module_of(frame).partition(".")[0]
        if package in owners and package != "maze_kernel":
            return f"plugin {owners[package].distribution} {owners[package].version}, {_place(frame)}"
    of_kernel = [frame for frame in frames if module_of(frame).startswith("maze_kernel")]
    return _place((of_kernel or frames)[-1]) if frames else "an unknown place"


def _place(frame: FrameType) -> str:
    return f"{module_of(frame)}.{frame.f_code.co_qualname}"


def discard_if_lost(stream: TextIO) -> bool:
    """Whether a stream takes no more; what is buffered is sent nowhere then, or the interpreter would fail on it."""
    try:
        print(file=stream, flush=True)
        return False
    except OSError:
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), stream.fileno())
        return True
