"""The `maze` command: parses, calls the rooms below, renders. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys

_LISTINGS = {("list-plugins",): False, ("list-plugins", "--json"): True}


def main() -> None:
    """Entry point of the console script.

    The two plain forms of `maze list-plugins` go past typer, which imports pydantic to parse any option; all
    others, `--help` among them, are parsed.
    """
    as_json = _LISTINGS.get(tuple(sys.argv[1:]))
    if as_json is not None:
        sys.exit(_list_plugins(as_json))
    from maze_kernel.cli.app import make_app

    make_app()(prog_name="maze")


def _list_plugins(as_json: bool) -> int:
    from maze_kernel.cli.listing import show_plugins

    try:
        show_plugins(as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        from maze_kernel.cli.guard import discard

        discard(sys.stdout)
    return 0
