"""`maze check` and `maze schema`: experiment files, before anything runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override one value; may be given again.")
]


def read_experiment(file: Path, overrides: tuple[str, ...] = ()) -> LoadedExperiment:
    """Load a file the user named; modules beside it can be imported (`use = "my_simulation:make_env"`).

    Its folder comes last on the path, so that it hides nothing. Worker processes inherit the path.
    """
    from maze_kernel.config import load_experiment

    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return load_experiment(file, overrides=overrides)


def check(
    file: Annotated[Path, typer.Argument(help="An experiment file.")],
    overrides: Overrides = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Play the environment, too, for so many decisions.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first episode, with --steps.")] = 0,
) -> None:
    """Check an experiment file and show every problem; with --steps also its environment."""
    loaded = read_experiment(file, tuple(overrides or ()))
    experiment = loaded.experiment
    parts = [f"env {experiment.env.use}", *(f"wrapper {wrapper.use}" for wrapper in experiment.wrappers)]
    if experiment.model is not None:
        parts.append(f"model {experiment.model.use}")
    parts.append(f"trainer {experiment.trainer.use}")
    typer.echo(f"{file}: ok ({experiment.name}: {', '.join(parts)})")
    if steps is not None:
        from maze_kernel.cli.app import find_command

        play = loaded.kernel.catalog.load(find_command(loaded.kernel.catalog, "check-env"))
        play(file, overrides, steps, seed)


def schema(
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write it to this file.")] = None,
) -> None:
    """Print the JSON Schema of experiments, for editors."""
    from maze_kernel.config import schema as schema_of
    from maze_kernel.loader import Kernel

    text = json.dumps(schema_of(Kernel.installed()), indent=2, sort_keys=True)
    if out is None:
        typer.echo(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(f"{text}\n", encoding="utf-8")
    typer.echo(f"wrote {out}; begin an experiment with the line `#:schema {out}`", err=True)
