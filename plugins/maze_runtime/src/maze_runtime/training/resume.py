"""Continuing a run."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

from maze_kernel.errors import CheckpointError, ExperimentError, RequestError
from maze_runtime.run.directory import StoredRun, open_run
from maze_runtime.training.checkpoint import Checkpoint, LoopState
from maze_runtime.training.schedules import budget_fraction, values_over_budget

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.trainer import Trainer
    from maze_kernel.loader import Kernel
    from maze_runtime.run.assembly import Assembly

_Path: TypeAlias = tuple[str | int, ...]

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
    """The experiment a run directory describes, with further overrides.

    Names resolve through installed plugins only, and to those that the run knew before any that came since.

    Args:
        components: top-level key to what takes its place. Objects from Python keep the description that is stored.

    Raises:
        ExperimentError: an override is wrong, or a plugin of the run is missing.
        RequestError: the run loads plugin files.
    """
    from maze_kernel.config.load import experiment_from_mapping
    from maze_runtime.run.plugins_of_run import kernel_of_run

    stored = open_run(run)
    given = components or {}
    # What a trainer's defaults are meant for today is not what a run that was begun without a model has
    resolved = {"model": None, **_without_options_of_mode(stored.resolved, overrides), **given}
    loaded = experiment_from_mapping(
        resolved,
        kernel=kernel_of_run(stored, overrides, kernel),
        origin=str(stored.path / "run.json"),
        overrides=overrides,
        import_paths=False,
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


def check_compatible(stored: StoredRun, wanted: LoadedExperiment) -> None:
    """Refuse to resume with an experiment that trains something else.

    An option that the version which began the run did not have yet may have its default value, as it has where the run
    is resumed without an experiment. A component may be spelt otherwise, "maze-ppo:ppo" for "ppo".

    Raises:
        RequestError: naming every key that may not change.
    """
    # A run that was begun without a model has the networks of its time, not those that go with a trainer today
    before = {"model": None, **stored.resolved}
    respelt = _respelt(stored, wanted)
    differences = [
        found
        for found in _differences(before, wanted.resolved)
        if not _is_free(_dotted(found.path)) and not respelt(found.path)
    ]
    new_options = [found.path for found in differences if found.unsaid]
    defaults = _by_default(wanted, new_options) if new_options else {}
    changed = [
        _dotted(found.path)
        for found in differences
        if not found.unsaid or _value_at(defaults, found.path) != _value_at(wanted.resolved, found.path)
    ]
    if changed:
        keeps_networks = "model" in changed and stored.resolved.get("model") is None
        raise RequestError(
            "a resumed run cannot change what it trains",
            received=", ".join(changed[:5]) + (" …" if len(changed) > 5 else ""),
            expected=f"changes of {', '.join((*_FREE_KEYS, *_FREE_TABLES))} and vector.mode only",
            help='start a new run with initialize_from = "RUN" to go on from its weights'
            + ("; without a FILE the run keeps its own networks" if keeps_networks else ""),
        )


def _respelt(stored: StoredRun, wanted: LoadedExperiment) -> Callable[[_Path], bool]:
    """Whether what stands at a path are two names of one component, as the run knows them."""
    from maze_runtime.run.plugins_of_run import kernel_of_run

    kernel = kernel_of_run(stored, kernel=wanted.kernel)

    def is_respelt(path: _Path) -> bool:
        uses = _value_at(stored.resolved, path), _value_at(wanted.resolved, path)
        if path[-1] != "use" or not all(isinstance(use, str) for use in uses):
            return False
        before, after = map(kernel.catalog.named, uses)
        return any(entry in before for entry in after)

    return is_respelt


def note_of_changes(stored: Mapping[str, Any], wanted: LoadedExperiment) -> str:
    """What may change and has, in words; "" for nothing. A file knows nothing of what `--set` began the run with."""
    changed = [
        f"{_dotted(found.path)} (was {_shown(stored, found.path)}, is {_shown(wanted.resolved, found.path)})"
        for found in _differences(stored, wanted.resolved)
        if _is_free(_dotted(found.path)) and not found.unsaid
    ]
    return f"other settings than before: {', '.join(changed)}" if changed else ""


def note_of_schedules(stored: Mapping[str, Any], wanted: LoadedExperiment, checkpoint: Checkpoint) -> str:
    """Which schedules go on from another value than the run ended with, for its budget is another; "" for none."""
    trainer = wanted.experiment.trainer
    options = getattr(trainer.instance, "options", trainer.options)
    before, after = (
        values_over_budget(options, _used(budget, checkpoint))
        for budget in (stored.get("trainer", {}), wanted.resolved.get("trainer", {}))
    )
    moved = [f"{name} from {value:.4g} to {after[name]:.4g}" for name, value in before.items() if value != after[name]]
    return f"the budget is another, and schedules run over it: {', '.join(moved)}" if moved else ""


def _used(budget: Mapping[str, Any], checkpoint: Checkpoint) -> float:
    return budget_fraction(
        epoch=checkpoint.epoch,
        n_epochs=budget.get("n_epochs", 0),
        env_steps=int(checkpoint.trainer.get("env_steps", 0)),
        max_env_steps=budget.get("max_env_steps", 0),
    )


def _shown(data: Mapping[str, Any], path: _Path) -> str:
    value = _value_at(data, path)
    return "absent" if value is None else json.dumps(value, default=repr)[:60]


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


class _Difference(NamedTuple):
    path: _Path
    """Keys of tables and places in lists."""
    unsaid: bool
    """Whether the older data have no such key."""


def _differences(old: Any, new: Any, path: _Path = ()) -> list[_Difference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        return [
            found
            for key in keys
            for found in (
                _differences(old[key], new.get(key), (*path, key))
                if key in old
                else [_Difference((*path, key), unsaid=True)]
            )
        ]
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        return [
            found
            for place, (before, after) in enumerate(zip(old, new, strict=True))
            for found in _differences(before, after, (*path, place))
        ]
    return [] if old == new else [_Difference(path, unsaid=False)]


def _by_default(wanted: LoadedExperiment, new_options: Sequence[_Path]) -> Mapping[str, Any]:
    """What the experiment resolves to without the values at these paths; nothing where it needs one of them."""
    from maze_kernel.config.load import experiment_from_mapping

    experiment = wanted.experiment
    required = {"name": experiment.name, "env": experiment.env, "trainer": experiment.trainer}
    tables = {name: copy.deepcopy(wanted.resolved[name]) for name in {str(path[0]) for path in new_options}}
    for path in new_options:
        del _value_at(tables, path[:-1])[path[-1]]
    try:
        return experiment_from_mapping({**required, **tables}, kernel=wanted.kernel).resolved
    except ExperimentError:
        return {}


def _value_at(data: Any, path: _Path) -> Any:
    """The value at a path; None where there is none."""
    for key in path:
        try:
            data = data[key]
        except (LookupError, TypeError):
            return None
    return data


def _dotted(path: _Path) -> str:
    return ".".join(map(str, path))


def _is_free(path: str) -> bool:
    table, _, key = path.partition(".")
    of_mode = table == "vector" and key != "n_envs"
    return table in _FREE_TABLES or path in _FREE_KEYS or of_mode
