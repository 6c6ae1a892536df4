"""`maze check-env`, and what `maze check` does where this is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_kernel.cli.experiments import Overrides, Source, show_valid
from maze_kernel.errors import MazeError
from maze_runtime.commands.sources import experiment_of
from maze_runtime.run.before_training import check_before_training

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_runtime.playing.env_check import EnvReport


def check_env(
    file: Source,
    overrides: Overrides = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Decisions to take at random.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first episode and of the actions.")] = 0,
) -> None:
    """Build the environments of an experiment, those of its evaluators too, with their wrappers, and play at random."""
    loaded = experiment_of(file, tuple(overrides or ()), needs_trainer=True)
    check_before_training(loaded.experiment, loaded.kernel.catalog)
    played = None if steps is None else _played(loaded, steps, seed)
    show_valid(file, loaded.experiment)
    if played is not None:
        _tell(file, loaded, *played)


def _played(loaded: LoadedExperiment, steps: int, seed: int) -> tuple[EnvReport, dict[str, EnvReport]]:
    """What the environment reports, and those of evaluators by their names."""
    from maze_runtime.env.tracebacks import ALONE
    from maze_runtime.playing.env_check import check_environment, check_evaluators

    try:
        report = check_environment(loaded, loaded.kernel, n_steps=steps, seed=seed)
        return report, check_evaluators(loaded, loaded.kernel, n_steps=steps, seed=seed)
    except MazeError as error:
        if error.help == ALONE:
            error.help = "the traceback above ends where it happened"
        raise


def _tell(file: Path, loaded: LoadedExperiment, report: EnvReport, others: dict[str, EnvReport]) -> None:
    from maze_runtime.run.evaluators import experiment_of as evaluator_of
    from maze_runtime.run.observation_sizes import LARGE

    typer.echo(f"{file}: {_shown(report, loaded.experiment.env.use)}")
    _tell_unseeded(str(file), report)
    for observation, size in report.sizes.items():
        if size > LARGE:
            typer.echo(
                f"{file}: the observation {observation} has numbers of about {size:.3g}, and networks learn best from"
                ' numbers of about 1: [[wrappers]] use = "observation-normalization"'
            )
    for name, other in others.items():
        use = evaluator_of(loaded, name).experiment.env.use
        typer.echo(f"{file}: evaluator {name}: {_shown(other, use)}")
        _tell_unseeded(f"{file}: evaluator {name}", other)


def _tell_unseeded(where: str, report: EnvReport) -> None:
    if report.unseeded is not None:
        typer.echo(
            f"{where}: two environments with the same seed and the same actions differ: {report.unseeded}. Runs cannot"
            " be repeated until everything is drawn from the seed of reset (Gymnasium's self.np_random)"
        )


def _shown(report: EnvReport, use: str) -> str:
    n = len(report.returns)
    ended = f"{n} episode{'s' * (n != 1)} ended" if n else "no episode ended"
    mean = f", mean reward {sum(report.returns) / n:.6g}" if n else ""
    return f"{report.n_steps} decisions of env {use}: {ended}{mean}"
