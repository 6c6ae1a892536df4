"""`maze list-plugins` and `maze new-plugin`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def list_plugins(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List the installed plugins and what they offer."""
    from maze_kernel.cli.listing import show_plugins

    show_plugins(as_json)


def new_plugin(
    name: Annotated[str, typer.Argument(help="Name of the distribution: lower-case words joined by hyphens.")],
    out: Annotated[Path, typer.Option("--out", help="Folder in which the new folder is made.")] = Path(),
) -> None:
    """Start a plugin of your own from the example."""
    from maze_kernel.scaffold import new_plugin as write
    from maze_kernel.shown_command import shown_command

    folder = write(name, out)
    typer.echo(f"{folder}")
    typer.echo(f"next: {shown_command('pip', 'install', '-e', folder)} && maze list-plugins", err=True)
