"""The `maze` command: parses, calls the rooms below, renders. Nothing heavy is imported before a command needs it."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    from maze_kernel.cli.app import app

    app(prog_name="maze")
