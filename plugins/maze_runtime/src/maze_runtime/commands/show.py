"""`maze show`: what a run directory holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_kernel.cli.tables import print_table
from maze_kernel.errors import CheckpointError
from maze_runtime.commands.runs import newest_run

if TYPE_CHECKING:
    from maze_runtime.training.checkpoint_store import CheckpointStore


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print run.json as it is.")] = False,
) -> None:
    """Show what a run is, where it came from and its checkpoints."""
    from maze_runtime.run.directory import open_run
    from maze_runtime.training.checkpoint_store import CheckpointStore

    stored = open_run(newest_run(run))
    if as_json:
        print((stored.path / "run.json").read_text(encoding="utf-8"), end="")
        return
    store = CheckpointStore(stored.path)
    epochs = ", ".join(str(epoch) for epoch in store.epochs()) or "none yet"
    record = stored.record
    rows = [
        ("run", str(stored.path)),
        ("name", stored.name),
        ("created", record.created),
        ("environment", _describe(stored.resolved.get("env"))),
        ("trainer", _describe(stored.resolved.get("trainer"))),
        ("seed", str(stored.resolved.get("seed"))),
        ("state", _state(stored.path)),
        ("overrides", " ".join(stored.overrides) or "none"),
        ("resumed", ", ".join(f"from epoch {entry.epoch}" for entry in record.resumed) or "never"),
        ("checkpoints", f"{epochs} (best {store.pointed('best')}, last {store.pointed('last')})"),
        ("plugins", ", ".join(f"{plugin.name} {plugin.version}".strip() for plugin in record.plugins)),
    ]
    print_table(("", ""), rows)
    _warn_of_damage(store)


def _warn_of_damage(store: CheckpointStore) -> None:
    if not store.epochs():
        return
    try:
        store.load_named("best")  # warns where another one is taken
    except CheckpointError as error:
        print(f"warning: {error.what}", file=sys.stderr)


def _state(run: Path) -> str:
    """Such as "done: all 24 epochs done", and what was said of loggers behind it."""
    from maze_runtime.run.log_reading import last_complaint, last_note

    notes = [note.splitlines()[0] for note in (last_note(run), last_complaint(run)) if note]
    return "; ".join(notes) or "nothing noted"


def _describe(table: Any) -> str:
    if not isinstance(table, dict):
        return "?"
    return f"{table.get('use', '?')} {table['id']}" if isinstance(table.get("id"), str) else str(table.get("use", "?"))
