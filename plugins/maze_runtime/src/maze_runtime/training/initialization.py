"""Starting a run from the weights and normaliser of another one, whichever trainer made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from maze_kernel.components import TrainerComponent
from maze_kernel.errors import MazeError, PluginError, RequestError
from maze_runtime.models.activations import activations_of
from maze_runtime.run.directory import StoredRun, open_run
from maze_runtime.run.naming import bare_name
from maze_runtime.run.plugins_of_run import kernel_of_run
from maze_runtime.run.trainer_needs import is_by_default
from maze_runtime.training.checkpoint import Checkpoint
from maze_runtime.training.checkpoint_store import CheckpointStore
from maze_runtime.training.head_comparison import compare_heads

if TYPE_CHECKING:
    from maze_kernel.contracts.model import ActorCritic
    from maze_kernel.contracts.trainer import TrainerContext
    from maze_kernel.contracts.transform import Transform
    from maze_runtime.run.assembly import Assembly

_SHOWN = 4
"""Names in one message."""


@runtime_checkable
class EstimatesLacking(Protocol):
    """A transform that can estimate what loaded statistics lack, and keep the others."""

    def estimate_lacking(self) -> tuple[list[str], list[str]]:
        """Want it; the names of observations with and without statistics."""
        ...


def open_source(run: Path | str) -> tuple[StoredRun, Checkpoint]:
    """The run that `initialize_from` names, and its best checkpoint.

    Raises:
        RequestError: it is no run directory.
        CheckpointError: it has no whole checkpoint.
    """
    try:
        stored = open_run(run)
        return stored, CheckpointStore(stored.path).load_named("best")
    except MazeError as error:
        error.what = f'initialize_from = "{run}": {error.what}'
        error.help = f"{error.help or 'name the directory of a trained run'}; the path counts from {Path.cwd()}"
        raise


class Initialization:
    """Starts a run from another one's best checkpoint: weights that fit by name and shape, and wrapper statistics.

    Args:
        run: directory of the other one.
        assembly: of the run that starts.

    Raises:
        RequestError: `run` is no run directory.
        CheckpointError: it has no whole checkpoint.
    """

    def __init__(self, run: Path | str, assembly: Assembly) -> None:
        self._run = run
        self._assembly = assembly
        self._stored, self._checkpoint = open_source(run)
        self._lines: list[str] = []

    def context(self, context: TrainerContext) -> TrainerContext:
        """What the trainer is built from, with models that have the weights: whatever it copies of them has, too."""
        return attrs.evolve(context, make_model=lambda: self._filled(context.make_model()))

    def finish(self, model: ActorCritic) -> list[str]:
        """Take over the statistics of wrappers, and the weights where the trainer made its model by itself.

        Args:
            model: the trainer's.

        Returns:
            What to tell the user: what was taken over, and what was not.

        Raises:
            RequestError: as `_filled`, or the weights learnt from other observations than the run would show them.
        """
        if not self._lines:
            self._filled(model)
        return self._lines + _initialize_transforms(self._stored, self._checkpoint, self._assembly)

    def _filled(self, model: Any) -> Any:
        """The same model; at least one weight matrix of its policy must fit, for a bias alone is nothing learnt.

        The critic is left out where the other trainer trains none.

        Raises:
            RequestError: no weight of the policy fits, or some stand before another activation or distribution.
        """
        stored, checkpoint = self._stored, self._checkpoint
        own: Mapping[str, Any] = model.state_dict()
        policy = set(model.policy_state_dict()) if hasattr(model, "policy_state_dict") else set(own)
        has_critic = _trains_a_critic(stored, self._assembly)
        theirs = {name: tensor for name, tensor in checkpoint.model.items() if has_critic or name in policy}
        fitting = {name: tensor for name, tensor in theirs.items() if name in own and own[name].shape == tensor.shape}
        anew, heads = compare_heads(self._run, checkpoint.distributions, model, fitting)
        fitting = {name: tensor for name, tensor in fitting.items() if name not in anew}
        if not any(tensor.dim() > 1 for name, tensor in fitting.items() if name in policy):
            raise _nothing_fits(self._run, {name: own[name] for name in own if name in policy}, checkpoint.model)
        _check_activations(self._run, checkpoint.activations, activations_of(model), fitting)
        model.load_state_dict(fitting, strict=False)
        best = CheckpointStore(stored.path).pointed("best")
        damaged = "" if best in (None, checkpoint.epoch) else f"; its best checkpoint, epoch {best}, is damaged"
        self._lines = [f"initialised from epoch {checkpoint.epoch} of {self._run} ({_trainer_of(stored)}){damaged}"]
        self._lines += [_report("policy", [name for name in own if name in policy], fitting), *heads]
        critic = [name for name in own if name not in policy]
        if critic and not has_critic:
            self._lines.append(f"critic: new, because {_trainer_of(stored)} trains none")
        elif critic:
            self._lines.append(_report("critic", critic, fitting))
        return model


def _trainer_of(stored: StoredRun) -> str:
    trainer = stored.resolved.get("trainer")
    return str(trainer.get("use", "?")) if isinstance(trainer, Mapping) else "?"


def _trains_a_critic(stored: StoredRun, assembly: Assembly) -> bool:
    """Whether the other run's critic has learnt anything; yes where its trainer is not installed."""
    try:
        catalog = kernel_of_run(stored, kernel=assembly.kernel).catalog
        component = catalog.find("trainer", _trainer_of(stored)).component
    except PluginError:
        return True
    return not isinstance(component, TrainerComponent) or component.critic != "none"


def _report(part: str, names: Sequence[str], fitting: Mapping[str, Any]) -> str:
    left = [name for name in names if name not in fitting]
    if not left:
        return f"{part}: all {len(names)} tensors taken over"
    if len(left) == len(names):
        return f"{part}: new, nothing in the other run fits it"
    return f"{part}: {len(names) - len(left)} of {len(names)} tensors taken over; left as they were: {_names(left)}"


def _check_activations(
    run: Path | str, theirs: Mapping[str, str], own: Mapping[str, str], fitting: Mapping[str, Any]
) -> None:
    """Refuse weights behind which the other run had another activation."""
    taken = [path for path in own if any(name.startswith(f"{path}.") for name in fitting)]
    wrong = [path for path in taken if theirs.get(path, own[path]) != own[path]]
    if wrong:
        names = sorted({theirs[path] for path in wrong})
        raise RequestError(
            f"the networks of {run} have other activations: what they learnt means nothing to these",
            received=", ".join(f"{path}: {theirs[path]} instead of {own[path]}" for path in wrong[:_SHOWN]),
            expected="the same ones",
            help=f'write non_lin = "{names[0]}" into [model], with use = "auto" where there is no such table',
        )


def _nothing_fits(run: Path | str, own: Mapping[str, Any], theirs: Mapping[str, Any]) -> RequestError:
    wrong = [
        f"{name} {tuple(theirs[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in theirs and theirs[name].shape != tensor.shape
    ]
    return RequestError(
        f"no weight of the policy in {run} fits the model",
        received=", ".join(wrong[:_SHOWN]) or ", ".join(list(theirs)[:_SHOWN]),
        expected=", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in list(own.items())[:_SHOWN]),
        help="give both experiments the same [model] table, environment spaces and wrappers",
    )


def _scaled_by_default(stored: StoredRun, use: str, theirs: Sequence[str]) -> RequestError:
    return RequestError(
        f"the weights of {stored.path} learnt from observations as they are; this run would scale them, by default",
        received=f"wrappers of the other run: {', '.join(theirs) or 'none'}",
        expected=f'wrapper "{use}" in both, or in neither',
        option="initialize_from",
        help=f'write wrappers = [] to go on as that run did, or name "{use}" in [[wrappers]] to begin anew',
    )


def _initialize_transforms(stored: StoredRun, checkpoint: Checkpoint, assembly: Assembly) -> list[str]:
    """Statistics go from each wrapper to the one of the same name, in order."""
    states = checkpoint.transforms
    uses = [str(wrapper.get("use", "?")) for wrapper in stored.resolved.get("wrappers", [])]
    # Transforms are the last wrappers: those that see single environments stand inside of them.
    saved = list(zip(uses[len(uses) - len(states) :], states, strict=True)) if len(uses) >= len(states) else []
    saved = [(use, state) for use, state in saved if state]
    lines = []
    for selection, transform in zip(assembly.transform_selections, assembly.transforms, strict=True):
        index = next((i for i, (use, _) in enumerate(saved) if bare_name(use) == bare_name(selection.use)), None)
        if index is None:
            by_default = is_by_default(selection, assembly.experiment, assembly.kernel.catalog)
            if by_default and transform.changes("observation"):
                raise _scaled_by_default(stored, selection.use, uses)
            continue
        use, state = saved.pop(index)
        before = transform.state_dict()
        try:
            transform.load_state_dict(state)
            lines.append(f"wrapper {use}: {_taken_over(transform)}")
        except (MazeError, KeyError, TypeError, ValueError) as error:
            transform.load_state_dict(before)
            lines.append(f"wrapper {use}: its statistics do not fit: {getattr(error, 'what', error)}")
    return lines + [f"wrapper {use}: not in this experiment, its statistics are left out" for use, _ in saved]


def _taken_over(transform: Transform) -> str:
    """What is said of loaded statistics; those that they lack are estimated next."""
    if not isinstance(transform, EstimatesLacking):
        return "statistics taken over"
    there, lacking = transform.estimate_lacking()
    if not lacking:
        return "statistics taken over"
    taken = f"statistics of {_names(there)} taken over" if there else "its statistics are of other observations"
    return f"{taken}; those of {_names(lacking)} begin anew"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
