"""Continuing a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.errors import CheckpointError, RequestError
from maze_runtime.run.directory import open_run
from maze_runtime.training.checkpoint import Checkpoint, LoopState

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.trainer import Trainer
    from maze_kernel.loader import Kernel
    from maze_runtime.run.assembly import Assembly

_FREE_TABLES = ("loggers", "callbacks", "checkpoint", "workers", "plugins", "initialize_from")
_FREE_KEYS = (
    "trainer.n_epochs",
    "trainer.patience",
    "trainer.max_env_steps",
    "trainer.device",
    "trainer.compile",
    "evaluation.every_epochs",
)


def stored_experiment(
    run: Path | str,
    *,
    overrides: Sequence[str] = (),
    kernel: Kernel | None = None,
    components: Mapping[str, Any] | None = None,
) -> LoadedExperiment:
    """The experiment a run directory describes, with further overrides; names resolve through installed plugins only.

    Args:
        components: top-level key to what takes its place. Objects from Python keep the description that is stored.

    Raises:
        ExperimentError: an override is wrong, or a plugin of the run is missing.
    """
    from maze_kernel.config.load import experiment_from_mapping

    stored = open_run(run)
    given = components or {}
    resolved = {**_without_options_of_mode(stored.resolved, overrides), **given}
    loaded = experiment_from_mapping(
        resolved, kernel=kernel, origin=str(stored.path / "run.json"), overrides=overrides, import_paths=False
    )
    described = {
        key: stored.resolved[key]
        for key in given
        if key in stored.resolved
        and (_is_object(getattr(loaded.experiment, key)) or _holds_object(loaded.resolved[key]))
    }
    return attrs.evolve(loaded, path=str(stored.path / "experiment.toml"), resolved={**loaded.resolved, **described})


def _is_object(selected: Any) -> bool:
    """Whether a component, or one of several, was given as an object from Python."""
    parts = selected if isinstance(selected, tuple) else (selected,)
    return any(getattr(part, "instance", None) is not None for part in parts)


def _holds_object(table: Any) -> bool:
    """Whether an option of a table is an object from Python."""
    if isinstance(table, Mapping):
        return any(map(_holds_object, table.values()))
    if isinstance(table, (list, tuple)):
        return any(map(_holds_object, table))
    return not isinstance(table, (str, int, float, type(None)))


def _without_options_of_mode(resolved: Mapping[str, Any], overrides: Sequence[str]) -> Mapping[str, Any]:
    """Without the options of the stored vector mode where the overrides choose another, which has its own."""
    vector = resolved.get("vector", {})
    chosen = [
        item.partition("=")[2].strip(" \"'") for item in overrides if item.partition("=")[0].strip() == "vector.mode"
    ]
    if not chosen or chosen[-1] == vector.get("mode"):
        return resolved
    return {**resolved, "vector": {key: value for key, value in vector.items() if key in ("n_envs", "mode")}}


def check_compatible(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to resume with an experiment that trains something else.

    Raises:
        RequestError: naming every key that may not change.
    """
    changed = [path for path in _differences(stored, wanted) if not _is_free(path)]
    if changed:
        raise RequestError(
            "a resumed run cannot change what it trains",
            received=", ".join(changed[:5]) + (" …" if len(changed) > 5 else ""),
            expected=f"changes of {', '.join((*_FREE_KEYS, *_FREE_TABLES))} and vector.mode only",
            help='start a new run with initialize_from = "RUN" to go on from its weights',
        )


def restore(checkpoint: Checkpoint, trainer: Trainer, assembly: Assembly) -> LoopState:
    """Put a checkpoint back into trainer and transforms; returns the loop's counters.

    Raises:
        CheckpointError: the checkpoint does not fit the model or the trainer.
    """
    if checkpoint.loop is None:
        raise CheckpointError(
            f"a run cannot go on from the checkpoint of epoch {checkpoint.epoch}: it holds weights only"
        )
    model: Any = trainer.model
    try:
        model.load_state_dict(checkpoint.model)
        trainer.load_state_dict(checkpoint.trainer)
        assembly.load_transform_states(checkpoint.transforms)
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the checkpoint of epoch {checkpoint.epoch} does not fit the experiment: {error}",
            help="resume with the plugin versions that run.json lists",
        ) from error
    return checkpoint.loop


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        return [
            found
            for key in keys
            for found in _differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        ]
    old, new = (list(value) if isinstance(value, tuple) else value for value in (old, new))
    unsaid = old is None and new in ({}, [])  # a key that the version which began the run did not have
    return [] if old == new or unsaid else [path]


def _is_free(path: str) -> bool:
    table, _, key = path.partition(".")
    of_mode = table == "vector" and key != "n_envs"
    return table in _FREE_TABLES or path in _FREE_KEYS or of_mode
