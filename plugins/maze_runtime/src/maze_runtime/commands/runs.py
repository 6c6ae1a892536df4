"""What commands work on: a run directory, the newest run below a folder, or an experiment; and new folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from maze_kernel.cli.experiments import read_experiment

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel
    from maze_runtime.training.checkpoint import Checkpoint


def new_folder(source: Path, kind: str, name: str) -> Path:
    """A new folder for "trajectories" or "events": in the run directory, or beside those of other experiments."""
    from maze_runtime.run.directory import new_path

    return new_path(newest_run(source), kind) if source.is_dir() else new_path(Path(kind), name)


def newest_run(path: Path) -> Path:
    """The run directory itself, or the newest run in a folder of runs, `runs/NAME` or `runs`."""
    if (path / "run.json").is_file() or not path.is_dir():
        return path
    runs = [file.parent for file in (*path.glob("*/run.json"), *path.glob("*/*/run.json"))]
    return max(runs, key=_begun, default=path)


def _begun(run: Path) -> tuple[str, str]:
    """When a run was begun, and its name, which tells runs of one second apart."""
    try:
        created = json.loads((run / "run.json").read_bytes()).get("created")
    except (OSError, ValueError, AttributeError):
        created = None
    return str(created or ""), run.name


def what_to_play(
    source: Path,
    experiment: Path | None,
    policy: str | None,
    checkpoint: str,
    overrides: tuple[str, ...] = (),
) -> tuple[LoadedExperiment, Kernel, Checkpoint | None]:
    """Experiment, plugins and weights of a run; no weights for what is no run, or where a policy is named.

    The run that was found in a folder of runs is named on standard error.
    """
    from maze_runtime.commands.sources import experiment_of
    from maze_runtime.playing.players import load_checkpoint
    from maze_runtime.training.resume import stored_experiment

    if not source.is_dir():
        loaded = experiment_of(source, overrides)
        return loaded, loaded.kernel, None
    run = newest_run(source)
    if run != source:
        print(f"run: {run}", file=sys.stderr)
    if experiment is None:
        loaded = stored_experiment(run, overrides=overrides)
    else:
        loaded = read_experiment(experiment, overrides)
    return loaded, loaded.kernel, None if policy is not None else load_checkpoint(run, checkpoint)
