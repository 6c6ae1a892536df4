"""`maze networks`, and `maze describe model FILE`: the networks an experiment would train, as Mermaid text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from maze_kernel.cli.experiments import read_experiment
from maze_kernel.errors import RequestError


def networks(
    file: Annotated[Path, typer.Argument(metavar="FILE|RUN", help="An experiment file, or a run directory.")],
    experiment: Annotated[
        Path | None, typer.Option("--experiment", help="Read the experiment here instead of from the run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Show the networks that an experiment would train, or that a run trains, without training them."""
    import attrs

    from maze_drawing.mermaid import mermaid
    from maze_runtime.run.assembly import Assembly
    from maze_runtime.training.resume import stored_experiment

    read = experiment or file
    loaded = stored_experiment(read) if read.is_dir() else read_experiment(read)
    model: Any = Assembly(loaded, loaded.kernel).make_model()
    graphs_of = getattr(model, "network_graphs", None)
    if graphs_of is None:
        raise RequestError(f"the model of {file} does not say what it is made of", received=type(model).__name__)
    graphs = graphs_of()
    if as_json:
        typer.echo(json.dumps([attrs.asdict(graph) for graph in graphs], indent=2))
    else:
        typer.echo(mermaid(graphs), nl=False)
