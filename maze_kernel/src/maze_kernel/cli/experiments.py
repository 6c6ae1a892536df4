"""`maze check` and `maze schema`: experiment files, before anything runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_kernel.errors import RequestError

if TYPE_CHECKING:
    from maze_kernel.config.experiment import Experiment, LoadedExperiment

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override one value; may be given again.")
]
Source = Annotated[Path, typer.Argument(metavar="{FILE|ENV}", help="An experiment file, or an environment's name.")]


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
    file: Source,
    overrides: Overrides = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="So many decisions are played, too.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first episode, with --steps.")] = 0,
) -> None:
    """Check an experiment file and show every problem; with --steps also its environment."""
    from maze_kernel.loader import Kernel

    catalog = Kernel.installed(report=False).catalog
    is_file = file.exists() or file.suffix == ".toml"
    if is_file and steps is None and "check-env" not in [one.component.name for one in catalog.entries("command")]:
        show_valid(file, read_experiment(file, tuple(overrides or ())).experiment)  # the kernel alone
    else:
        catalog.load(catalog.find("command", "check-env"))(file, overrides, steps, seed)


def show_valid(source: Path, experiment: Experiment) -> None:
    """Say that an experiment is valid, and what it selects."""
    wrappers = (("wrapper", wrapper) for wrapper in experiment.wrappers)
    chosen = (("env", experiment.env), *wrappers, ("model", experiment.model), ("trainer", experiment.trainer))
    parts = ", ".join(f"{kind} {one.use}" for kind, one in chosen if one is not None)
    typer.echo(f"{source}: ok ({experiment.name}: {parts})")


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
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise RequestError(f"the schema cannot be written to {out}: {error}", help="name another file") from error
    typer.echo(f"wrote {out}; begin an experiment with the line `#:schema {out}`", err=True)
