"""Run directories as commands are given them: the run that is meant, what it holds, and new folders in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maze_kernel.cli.experiments import read_experiment
from maze_kernel.errors import RequestError

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel
    from maze_runtime.training.checkpoint import Checkpoint


def new_folder(source: Path, kind: str, name: str) -> Path:
    """A new folder for "trajectories" or "events": in the run directory, or beside those of other experiments."""
    from maze_runtime.run.directory import new_path

    return new_path(Path(kind), name) if source.is_file() else new_path(newest_run(source), kind)


def newest_run(path: Path) -> Path:
    """The run directory itself, or the newest run in a folder of runs."""
    if (path / "run.json").is_file() or not path.is_dir():
        return path
    runs = sorted(child for child in path.iterdir() if (child / "run.json").is_file())
    return runs[-1] if runs else path


def what_to_play(
    source: Path, experiment: Path | None, policy: str | None, checkpoint: str
) -> tuple[LoadedExperiment, Kernel, Checkpoint | None]:
    """Experiment, plugins and weights of a run; no weights for an experiment file, or where a policy is named."""
    from maze_runtime.playing.players import load_checkpoint
    from maze_runtime.training.resume import stored_experiment

    if source.is_file():
        loaded = read_experiment(source)
        return loaded, loaded.kernel, None
    if not source.exists():
        raise RequestError(f"there is no run directory or experiment file {source}", help="maze train FILE makes a run")
    run = newest_run(source)
    loaded = stored_experiment(run) if experiment is None else read_experiment(experiment)
    return loaded, loaded.kernel, None if policy is not None else load_checkpoint(run, checkpoint)
