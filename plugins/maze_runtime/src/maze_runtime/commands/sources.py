"""What a command is given to train or to play: an experiment file, or the mere name of an environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.cli.experiments import read_experiment
from maze_kernel.errors import ExperimentError, RequestError
from maze_runtime.run.naming import environment_table, import_from, name_of_default, names_environment, title_of

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment


_NO_TRAINER = ("trainer is missing", "trainer does not say which trainer to use")


def experiment_of(source: Path, overrides: tuple[str, ...] = (), *, needs_trainer: bool = False) -> LoadedExperiment:
    """The experiment that a file holds, or one of a bare environment with the default trainer.

    Args:
        source: an experiment file; the name of an installed environment; an id, "CartPole-v1"; or an import path.
        needs_trainer: refuse a file without a trainer, which gets the default one otherwise.

    Raises:
        ExperimentError: every problem of it.
        RequestError: it is none of these.
    """
    if not _names_environment(source):
        if needs_trainer:
            return read_experiment(source, overrides)
        return _with_trainer(lambda more: read_experiment(source, (*more, *overrides)), overrides)
    return _of_environment(source.as_posix(), overrides)


def _names_environment(source: Path) -> bool:
    """Whether it is the name of an environment: there is no such file, and none is meant."""
    if source.exists() or source.suffix == ".toml":
        return False
    if names_environment(source.as_posix()):
        return True
    from maze_kernel.config.source import files_beside

    raise RequestError(
        f"there is no run directory or experiment file {source}",
        expected='a run, a file, an environment ("cutting-2d") or an id ("CartPole-v1")',
        nearest=tuple(str(source.with_name(name)) for name in files_beside(source, ".toml")),
        help="maze train FILE makes a run, and maze new FILE --env ID a file",
    )


def _of_environment(name: str, overrides: tuple[str, ...]) -> LoadedExperiment:
    from maze_kernel.config.load import experiment_from_mapping
    from maze_kernel.loader import Kernel

    import_from(Path.cwd())
    kernel = Kernel.installed()
    data = {"name": title_of(name), "env": environment_table(kernel, name)}

    def load(more: tuple[str, ...]) -> LoadedExperiment:
        items = (*more, *overrides)
        loaded = experiment_from_mapping(data, kernel=kernel, origin=name, overrides=items)
        return attrs.evolve(loaded, text=_as_file(data, items))

    return _with_trainer(load, overrides)


def _with_trainer(load: Callable[[tuple[str, ...]], LoadedExperiment], overrides: tuple[str, ...]) -> LoadedExperiment:
    """What `load` gives, with the default trainer where none is selected; it is called with further overrides."""
    try:
        return load(())
    except ExperimentError as error:
        if not any(problem.what.startswith(_NO_TRAINER) for problem in error.problems):
            raise
    from maze_kernel.loader import Kernel

    trainer = name_of_default(Kernel.installed(report=False).catalog, "trainer")
    return attrs.evolve(load((f'trainer.use="{trainer}"',)), overrides=overrides)


def _as_file(data: dict[str, Any], overrides: tuple[str, ...]) -> str:
    """What an experiment file would say in place of a name and overrides."""
    from maze_kernel.config.origin import Origin
    from maze_kernel.config.overrides import apply_overrides
    from maze_kernel.config.problems import Problems
    from maze_kernel.config.resolved import to_toml

    problems = Problems(origin=Origin(file="", python=True))
    return "# Written by Maze from an environment's name and --set.\n" + to_toml(
        apply_overrides(data, overrides, problems)
    )
