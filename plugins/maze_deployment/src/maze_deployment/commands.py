"""`maze export`: a trained policy as files that act without Maze."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_kernel.errors import RequestError
from maze_runtime.commands.runs import what_to_play


def export(
    source: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write; a description joins it.")],
    format_name: Annotated[
        str | None, typer.Option("--format", help="onnx or torch-export; else as FILE ends: .onnx or .pt2.")
    ] = None,
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="best, last or epoch-N.")] = "best",
    experiment: Annotated[
        Path | None, typer.Option("--experiment", help="Read the experiment here instead of from the run.")
    ] = None,
) -> None:
    """Write the policy of a run as a file that acts without Maze."""
    if not source.is_dir():
        raise RequestError(f"nothing is trained in {source}", expected="a run directory")
    if out.is_dir():
        raise RequestError(f"{out} is a folder", option="--out", expected="the file to write")
    from maze_deployment.export import FORMATS, export_checkpoint

    endings = {ending: name for name, ending in FORMATS.items()}
    chosen = format_name or endings.get(out.suffix)
    if chosen is None:
        raise RequestError(f"{out} does not say in which format to export", expected=f"--format {' or '.join(FORMATS)}")
    loaded, kernel, weights = what_to_play(source, experiment, None, checkpoint)
    assert weights is not None, "a run has weights where no policy is named"
    written = export_checkpoint(loaded, kernel, weights, out, chosen)
    for file in written.files:
        print(f"{file.path}: policy {file.policy_key}, differs from the trained one by at most {file.difference:.1e}")
    print(f"{written.description}: what goes in and what comes out")
