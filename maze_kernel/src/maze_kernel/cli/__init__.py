"""The `maze` command: parses, calls the rooms below, renders. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

_USUAL = warnings.formatwarning
_LISTINGS = {("list-plugins",): False, ("list-plugins", "--json"): True}


def main() -> None:
    """Entry point of the console script.

    The two plain forms of `maze list-plugins` go past typer, which imports pydantic to parse any option; all
    others, `--help` among them, are parsed.
    """
    warnings.formatwarning = _format_warning
    for name in ("stdout", "stderr"):  # None where it was closed
        setattr(sys, name, getattr(sys, name) or open(os.devnull, "w"))  # noqa: SIM115
    try:
        if (as_json := _LISTINGS.get(tuple(sys.argv[1:]))) is not None:
            from maze_kernel.cli.listing import show_plugins

            show_plugins(as_json)
            sys.stdout.flush()
            return
        from maze_kernel.cli.app import make_app

        make_app()(prog_name="maze")
    except (KeyboardInterrupt, OSError) as error:  # where there is no command to answer it
        from maze_kernel.cli.guard import code_of_end

        if (code := code_of_end(error)) is None:
            raise
        sys.exit(code)


def _format_warning(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
    from maze_kernel.errors import MazeWarning

    return f"warning: {message}\n" if issubclass(category, MazeWarning) else _USUAL(message, category, *place, **line)
