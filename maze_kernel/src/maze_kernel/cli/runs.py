"""`maze train`, `maze rollout` and `maze show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_kernel.cli.experiments import Overrides
from maze_kernel.cli.guard import guarded


@guarded
def train(file: Annotated[Path, typer.Argument()], overrides: Overrides = None) -> None:
    """Train."""


@guarded
def rollout(source: Annotated[Path, typer.Argument()]) -> None:
    """Roll out."""


@guarded
def show(run: Annotated[Path, typer.Argument()]) -> None:
    """Show."""
