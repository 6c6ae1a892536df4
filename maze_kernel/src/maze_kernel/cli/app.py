"""The `maze` command: a group whose commands are components, each imported when it runs.

`maze --help` lists them by name and summary and imports none of their modules.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from maze_kernel import __version__
from maze_kernel.catalog import Catalog
from maze_kernel.cli.guard import guarded, print_error
from maze_kernel.errors import MazeError
from maze_kernel.loader import Kernel


class CommandGroup(TyperGroup):
    """The commands of a catalog; a subclass says of which."""

    catalog: Catalog

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, sorted."""
        return list(self._summaries())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command.

        Raises:
            PluginError: there is none of this name, or it cannot be imported.
        """
        return command_of(self.catalog, cmd_name)

    def main(self, *args: Any, **settings: Any) -> Any:
        """Parse and run; an error before the command itself begins is shown as those of commands are."""
        try:
            return super().main(*args, **settings)
        except MazeError as error:
            print_error(error)
            sys.exit(error.exit_code)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands from their records alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def _summaries(self) -> dict[str, str]:
        entries = {entry.qualified_name: entry.component for entry in self.catalog.entries("command")}
        names = [component.name for component in entries.values()]
        return {c.name if names.count(c.name) == 1 else name: c.summary for name, c in entries.items()}


def make_app(kernel: Kernel | None = None) -> typer.Typer:
    """The command line with the commands of these plugins.

    Args:
        kernel: None: everything that is installed.
    """
    catalog = (Kernel.installed(report=False) if kernel is None else kernel).catalog
    group = type("InstalledCommands", (CommandGroup,), {"catalog": catalog})
    app = typer.Typer(
        cls=group,
        name="maze",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main)
    return app


def command_of(catalog: Catalog, name: str) -> Any:
    """A command, imported and ready to be parsed and called.

    Raises:
        PluginError: there is none of this name, or it cannot be imported.
    """
    entry = catalog.find("command", name)
    function = catalog.load(entry)
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(entry.component.name)(guarded(function, name=entry.component.name))
    return get_command(single)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maze {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Applied reinforcement learning, every part a plugin."""
