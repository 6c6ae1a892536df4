"""`maze describe`: what a component does and the options it takes, or the model of an experiment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from maze_kernel.cli.tables import print_table

if TYPE_CHECKING:
    from maze_kernel.loader import Kernel


def describe(
    kind: Annotated[str, typer.Argument(help="env, wrapper, block, distribution, trainer, logger, model, policy, …")],
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of the component; without it the kind is listed. Behind `model` also an experiment file, whose "
            "networks are shown."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    load: Annotated[list[Path] | None, typer.Option(help="A plugin in one file; may be given again.")] = None,
) -> None:
    """Describe a component and its options, or the networks of an experiment as Mermaid text."""
    from maze_kernel.loader import Kernel

    folders = [Path.cwd(), *(file.resolve().parent for file in load or ())]
    sys.path += dict.fromkeys(map(str, folders))  # last, so that they hide nothing
    kernel = Kernel.installed(load=load or ())
    if kind == "model" and name is not None and (name.endswith(".toml") or Path(name).is_file()):
        show_networks = kernel.catalog.load(kernel.catalog.find("command", "networks"))
        show_networks(Path(name), as_json=as_json)
        return
    if kind == "preset" and name is not None:
        from maze_kernel.config import presets, to_toml

        typer.echo(to_toml(presets.preset_table(kernel.catalog, kernel.catalog.find(kind, name))), nl=False)
        return
    if name is None:
        from maze_kernel.config.description import require_kind

        require_kind(kernel, kind)
        rows = [(own.component.name, str(own.plugin), own.component.summary) for own in kernel.catalog.entries(kind)]
        if as_json:
            typer.echo(json.dumps([{"name": n, "plugin": p, "summary": s} for n, p, s in rows], indent=2))
        else:
            print_table(("name", "plugin", "summary"), rows)
        return
    _describe_one(kernel, kind, name, as_json)


def _describe_one(kernel: Kernel, kind: str, name: str, as_json: bool) -> None:
    from maze_kernel.config import describe as describe_component

    description = describe_component(kernel, kind, name)
    options = [attrs.asdict(row) for row in description.options]
    if as_json:
        about = {"kind": kind, "name": name, "owner": description.owner, "summary": description.summary}
        typer.echo(json.dumps({**about, "options": options}, indent=2, default=str))
        return
    typer.echo(f"{kind} {name} ({description.owner})")
    typer.echo(f"{description.summary}\n" if description.summary else "")
    if not options:
        typer.echo(f"maze {name} --help shows its arguments." if kind == "command" else "It has no options.")
        return
    print_table(("option", "type", "default", "meaning"), [[row[k] for k in list(row)[:4]] for row in options])
