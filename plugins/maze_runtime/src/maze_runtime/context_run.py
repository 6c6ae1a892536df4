"""The run behind a `RunContext`: its experiment, its directory, and what was trained there so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.errors import RequestError
from maze_runtime.context_experiment import with_schedules_until
from maze_runtime.playing import players as playing
from maze_runtime.playing.acting import SingleEnvActor
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.directory import encode_json_lenient
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.one_thread import refuse_beside_training
from maze_runtime.training.train import TrainingResult, train

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.model import ActorCritic
    from maze_runtime.training.checkpoint import Checkpoint


def as_stored(loaded: LoadedExperiment) -> LoadedExperiment:
    """The experiment as the run directory stores it: objects given from Python become their description."""
    return attrs.evolve(loaded, resolved=json.loads(encode_json_lenient(loaded.resolved)))


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()


@attrs.define
class ContextRun:
    """An experiment and the run directory that its training goes to.

    Attributes:
        run_dir: absolute; None before the first training, unless it was given.
        has_begun: the directory is that of a run.
        is_trained: the run has checkpoints.
    """

    loaded: LoadedExperiment
    run_dir: Path | None = attrs.field(converter=_absolute)
    has_begun: bool = False
    is_trained: bool = False

    def __str__(self) -> str:
        experiment = self.loaded.experiment
        env = experiment.env.option("id") if experiment.env.instance is None else None
        parts = [
            f"{experiment.trainer.use} on {experiment.env.use}{f' {env}' if env else ''}",
            f"seed {experiment.seed}",
            f"{self.n_epochs} epochs trained" if self.is_trained else "not trained",
            *([] if self.run_dir is None else [str(_from_here(self.run_dir))]),
        ]
        return f"{experiment.name}: {', '.join(parts)}"

    @property
    def n_epochs(self) -> int:
        """Epochs trained so far."""
        has_checkpoint = self.run_dir is not None and self.is_trained and CheckpointStore(self.run_dir).epochs()
        return self.checkpoint("last").epoch if has_checkpoint else 0

    def train(self, n_epochs: int | None, callbacks: Sequence[Any], *, silent: bool) -> TrainingResult:
        """Train so many epochs more, None: what is left of the budget; see `RunContext.train`."""
        until = None if n_epochs is None else self.n_epochs + n_epochs
        loaded = self.loaded if until is None else with_schedules_until(self.loaded, until)
        where = {"resume": self.run_dir} if self.has_begun else {"run_dir": self.run_dir}
        verbosity = -1 if silent else 0
        options = {"verbosity": verbosity, "callbacks": callbacks, "until_epoch": until, **where}
        options["renews_patience"] = until is not None
        places: list[Path] = []
        try:
            return train(loaded, loaded.kernel, on_run_dir=places.append, **options)  # type: ignore[arg-type]
        finally:
            self._see(places)

    def _see(self, places: Sequence[Path]) -> None:
        """What a call of train has left, also where it failed: the run goes on from its last checkpoint.

        Args:
            places: the run directory, nothing where there was none yet; where training did not begin, it is gone again.
        """
        for path in places:
            if path.is_dir():
                self.run_dir, self.has_begun = path, True
                self.is_trained = bool(CheckpointStore(path).epochs())  # none where the first epoch was cut short

    def checkpoint(self, name: str) -> Checkpoint:
        """The checkpoint "best", "last" or "epoch-N"; raises as `RunContext.checkpoint`."""
        if not self.is_trained or self.run_dir is None:
            raise RequestError("there is nothing trained yet", help="call train() first, or give a policy by name")
        return playing.load_checkpoint(self.run_dir, name)

    def restored(self, loaded: LoadedExperiment, checkpoint: Checkpoint) -> tuple[Assembly, ActorCritic]:
        """Wrappers and model with what a checkpoint holds.

        Args:
            loaded: the experiment, perhaps with other episodes of evaluation.

        Raises:
            RequestError: another thread of this process trains.
            CheckpointError: it is of another model.
        """
        refuse_beside_training()
        assembly = Assembly(loaded, loaded.kernel, self.run_dir)
        model = playing.load_weights(assembly.make_model(), playing.weights_of(checkpoint))  # says best what is another
        assembly.load_transform_states(checkpoint.transforms)
        return assembly, model

    def make_actor(self) -> SingleEnvActor:
        """Acts with the best checkpoint, or with a freshly initialised model before training."""
        refuse_beside_training()
        if self.is_trained:
            assembly, model = self.restored(self.loaded, self.checkpoint("best"))
        else:
            assembly = Assembly(self.loaded, self.loaded.kernel)
            model = assembly.make_model()
        return SingleEnvActor(assembly, assembly.make_policy(model, assembly.seeds.seed("compute-action")))


def _from_here(path: Path) -> Path:
    """A path as short as it can be, for people."""
    here = Path().absolute()
    return path.relative_to(here) if path.is_relative_to(here) else path
