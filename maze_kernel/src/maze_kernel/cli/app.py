"""The table of commands; each is written in the module of its subject."""

from __future__ import annotations

from typing import Annotated

import typer

from maze_kernel import __version__
from maze_kernel.cli import components, datasets, experiments, export, plugins, runs, view

app = typer.Typer(
    name="maze",
    help="Applied reinforcement learning, every part a plugin.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maze {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Applied reinforcement learning, every part a plugin."""


app.command("train")(runs.train)
app.command("rollout")(runs.rollout)
app.command("show")(runs.show)
app.command("view")(view.view)
app.command("to-minari")(datasets.to_minari)
app.command("from-minari")(datasets.from_minari)
app.command("export")(export.export)
app.command("check")(experiments.check)
app.command("schema")(experiments.schema)
app.command("describe")(components.describe)
app.command("list-plugins")(plugins.list_plugins)
app.command("new-plugin")(plugins.new_plugin)
