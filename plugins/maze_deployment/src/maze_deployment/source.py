"""What is deployed or exported: a run directory, an experiment file or a `RunContext`, read to the same record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from maze_kernel.config.load import load_experiment
from maze_kernel.errors import RequestError
from maze_runtime.context import RunContext
from maze_runtime.playing.players import load_checkpoint
from maze_runtime.training.resume import stored_experiment

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel
    from maze_runtime.training.checkpoint import Checkpoint


@attrs.frozen(kw_only=True)
class DeploymentSource:
    """An experiment, its plugins, and what was trained of it.

    Attributes:
        checkpoint: weights and wrapper statistics; None: nothing is trained.
        run_dir: of the run; None: there is none.
    """

    loaded: LoadedExperiment
    kernel: Kernel
    checkpoint: Checkpoint | None
    run_dir: Path | None


def open_source(
    run: RunContext | Path | str,
    *,
    checkpoint: str = "best",
    experiment: Path | str | None = None,
    kernel: Kernel | None = None,
) -> DeploymentSource:
    """Open what a user names.

    Args:
        run: a run directory, an experiment file, or the context of a run.
        checkpoint: "best", "last" or "epoch-N" of a run.
        experiment: the experiment file of a run directory, where it imports code by path.
        kernel: the plugins to use for a path; None: everything that is installed.

    Raises:
        RequestError: there is no such run or checkpoint, or a context was given together with what it holds already.
    """
    if isinstance(run, RunContext):
        if experiment is not None or kernel is not None:
            raise RequestError(
                "a RunContext has its experiment and its plugins",
                received="experiment or kernel besides",
                help="leave them out, or name the run directory instead",
            )
        trained = run.checkpoint(checkpoint) if run.is_trained else None
        run_dir = run.run_dir if run.is_trained else None
        return DeploymentSource(loaded=run.loaded, kernel=run.kernel, checkpoint=trained, run_dir=run_dir)
    path = Path(run)
    is_file = path.is_file()
    if experiment is not None or is_file:
        loaded = load_experiment(experiment or path, kernel=kernel)
    else:
        loaded = stored_experiment(path, kernel=kernel)
    return DeploymentSource(
        loaded=loaded,
        kernel=kernel or loaded.kernel,
        checkpoint=None if is_file else load_checkpoint(path, checkpoint),
        run_dir=None if is_file else path,
    )
