"""`maze check-env`, also the second half of `maze check FILE --steps N`: the environment is built and played."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_kernel.cli.experiments import Overrides, read_experiment
from maze_kernel.errors import MazeError


def check_env(
    file: Annotated[Path, typer.Argument(help="An experiment file.")],
    overrides: Overrides = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Decisions to take at random.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first episode and of the actions.")] = 0,
) -> None:
    """Build the environment of an experiment with its wrappers, and play it at random."""
    from maze_runtime.env.tracebacks import ALONE
    from maze_runtime.playing.env_check import check_environment

    loaded = read_experiment(file, tuple(overrides or ()))
    try:
        report = check_environment(loaded, loaded.kernel, n_steps=steps, seed=seed)
    except MazeError as error:
        if error.help == ALONE:
            error.help = "the traceback above ends where it happened"
        raise
    n = len(report.returns)
    ended = f"{n} episode{'s' * (n != 1)} ended" if n else "no episode ended"
    mean = f", mean reward {sum(report.returns) / n:.6g}" if n else ""
    typer.echo(f"{file}: {report.n_steps} decisions of env {loaded.experiment.env.use}: {ended}{mean}")
