"""What components say of themselves, and what is refused because a trainer cannot do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_kernel.components import Component, TrainerComponent, load_attribute
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.selection import Selection
from maze_runtime.models.recurrence import STATE, carries_state
from maze_runtime.rollout.vector_options import POOLED, without_workers

if TYPE_CHECKING:
    from maze_kernel.catalog import Catalog
    from maze_kernel.config.experiment import Experiment


def said_of(catalog: Catalog, selection: Selection, name: str, default: Any) -> Any:
    """What the record of a component says of it; a component given by its import path says it itself."""
    try:
        record = catalog.find(selection.kind, selection.use).component
    except PluginError:
        target = selection.instance if selection.instance is not None else load_attribute(selection.target)
        return getattr(target, name, default)
    return getattr(record, name, default)


def is_by_default(selection: Selection, experiment: Experiment, catalog: Catalog) -> bool:
    """Whether nobody named this wrapper: it came with the preset that the trainer's defaults are meant for."""
    preset = said_of(catalog, experiment.trainer, "preset", None)
    named = [experiment.preset] if isinstance(experiment.preset, str) else experiment.preset
    if preset is None or selection.location is None:
        return False
    name, *others = (one.rpartition(":")[2] for one in (preset, *named))  # either may say whose it is
    return name not in others and str(selection.location.file).startswith(f'preset "{name}"')


def refuse_state(model: ActorCritic, trainer: Selection, catalog: Catalog) -> None:
    """Refuse a model that carries state from step to step where the trainer does not train such models."""
    if carries_state(model) and not said_of(catalog, trainer, "recurrent", False):
        others = [e.component.name for e in catalog.entries("trainer") if _trains_states(e.component)]
        raise RequestError(
            f"trainer {trainer.use!r} does not train models that carry state from step to step",
            received=f"state of {', '.join(_names_of_states(model))}",
            location=trainer.location,
            owner=trainer.owner,
            expected=f"a trainer that does: {', '.join(others) or 'none is installed'}",
            help="choose such a trainer, or blocks without state that read stacked observations; lstm and gru have "
            "none with stateful = false",
        )


def _names_of_states(model: Any) -> list[str]:
    """What blocks call them; those of policy and critic have one name as a rule."""
    names = [name for key in model.spaces.policy_keys for name in model.state_shapes(key)]
    return list(dict.fromkeys(name.rpartition(STATE)[2] for name in names))


def refuse_mode(experiment: Experiment, catalog: Catalog) -> None:
    """Refuse a mode that collects on workers where there are none, or where the trainer steps its batch itself.

    Raises:
        RequestError: names trainer and mode.
    """
    mode, trainer = experiment.vector.mode, experiment.trainer
    if mode is None or not said_of(catalog, mode, "only_collects", False):
        return
    if said_of(catalog, trainer, "collects_rollouts", False):
        if said_of(catalog, mode, "name", "") == POOLED and experiment.workers is None:
            raise without_workers(mode.location)
        return
    entries = catalog.entries("trainer")
    others = [entry.component.name for entry in entries if getattr(entry.component, "collects_rollouts", False)]
    raise RequestError(
        f"trainer {trainer.use!r} takes single steps, which a batch of the mode {mode.use!r} does not",
        received=f'[vector] mode = "{mode.use}"',
        location=mode.location,
        owner=trainer.owner,
        expected=f"a trainer that lets workers collect rollouts: {', '.join(others) or 'none is installed'}",
        help='choose such a trainer, or another mode: "subprocess" steps in processes of this machine',
    )


def _trains_states(component: Component) -> bool:
    return isinstance(component, TrainerComponent) and component.recurrent
