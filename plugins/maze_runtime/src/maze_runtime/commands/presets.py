"""`maze list-presets`: the tables that an experiment can be built on."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from maze_kernel.cli.tables import print_table


def list_presets(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List the presets that an experiment may name; `maze describe preset NAME` prints one."""
    from maze_kernel.loader import Kernel

    entries = Kernel.installed().catalog.entries("preset")
    rows = [(entry.component.name, entry.plugin.name, entry.component.summary) for entry in entries]
    if as_json:
        print(json.dumps([{"name": name, "plugin": plugin, "summary": text} for name, plugin, text in rows], indent=2))
    else:
        print_table(("preset", "plugin", "summary"), rows)
