"""`maze new`: an experiment file to begin with, written for one environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_kernel.errors import RequestError
from maze_kernel.shown_command import shown_command
from maze_runtime.run.naming import import_from
from maze_runtime.run.writable import writing


def new(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="The file to write, e.g. cartpole.toml.")],
    env: Annotated[str, typer.Option("--env", metavar="ENV", help="An environment's name, id or import path.")],
    trainer: Annotated[
        str | None, typer.Option("--trainer", metavar="NAME", help="A trainer; else one that fits the actions.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="An option of the environment, as env.id=…; repeatable."),
    ] = None,
) -> None:
    """Write a commented experiment file that fits the spaces of an environment."""
    from maze_runtime.run.draft import TO_FILL_IN, draft_experiment

    if file.suffix != ".toml":
        raise RequestError(f"{file} is no name of an experiment file", expected="a name that ends in .toml")
    if file.exists():
        raise RequestError(f"{file} exists already", help="name another file, or remove this one yourself")
    import_from(Path.cwd())
    text = draft_experiment(file, env, trainer, overrides or ())
    with writing(file, "the experiment"):
        file.write_text(text, encoding="utf-8")
    if TO_FILL_IN in text:
        print(f"{file}: write your own value where it says {TO_FILL_IN!r} before you train")
    check, train = shown_command("maze", "check", file, "--steps", 1000), shown_command("maze", "train", file)
    print(f"{file}: try the environment with: {check}; train with: {train}")
