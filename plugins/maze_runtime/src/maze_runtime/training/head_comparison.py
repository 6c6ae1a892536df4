"""Whether the heads of a run mean what those of another one do whose weights it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from maze_kernel.errors import RequestError
from maze_runtime.models.capabilities import NamesHeadLayers
from maze_runtime.models.head_distributions import HeadDistribution, head_distributions
from maze_runtime.run.naming import bare_name

Heads = Mapping[str, Mapping[str, HeadDistribution]]
"""Policy key to action head to its distribution."""


def compare_heads(
    run: Path | str, theirs: Heads, model: Any, fitting: Mapping[str, Tensor]
) -> tuple[set[str], list[str]]:
    """Find the weights behind which the other run had another distribution.

    Args:
        run: the other one.
        theirs: its distributions; what it does not name is not compared.
        model: the own one.
        fitting: the tensors that would be taken over, by name.

    Returns:
        Names of those of them that begin anew, because the action is another one and their shapes agree by chance; and
        what to tell the user of these, and of options of a distribution that differ.

    Raises:
        RequestError: the action is of the same kind, and its distribution another one.
    """
    anew: set[str] = set()
    lines = []
    own_heads = head_distributions(model)
    for key in getattr(model, "distributions", {}):
        for head, own in own_heads.get(str(key), {}).items():
            other = theirs.get(str(key), {}).get(head)
            if other is None:
                continue
            layers = _tensors_of(model, key, head, fitting)
            label = f"head {head!r}" if len(own_heads) == 1 else f"head {head!r} of policy key {key!r}"
            is_another_action = own.n_logits != other.n_logits or (own.kind != other.kind and own.space != other.space)
            if not _is_taken(layers, own, other):
                anew.update(layers or () if own.kind != other.kind else ())
            elif is_another_action:
                anew.update(layers or ())
                lines.append(_told_of_another_action(label, own, other, begins_anew=layers is not None))
            elif own.kind != other.kind:
                raise _another_distribution(run, head, label, own, other)
            else:
                lines += _told_of_options(label, own, other)
    return anew, lines


def _tensors_of(model: Any, key: Any, head: str, fitting: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Those of the modules that give the logits of a head and nothing else; None where the model does not say which."""
    paths = model.head_layers(key).get(head) if isinstance(model, NamesHeadLayers) else None
    if paths is None:
        return None
    return {name: own for name, own in fitting.items() if name.startswith(tuple(f"{path}." for path in paths))}


def _is_taken(layers: Mapping[str, Tensor] | None, own: HeadDistribution, other: HeadDistribution) -> bool:
    """Whether what a head learnt comes along, for a bias alone is nothing learnt."""
    if layers is None:
        return own.n_logits == other.n_logits
    return any(tensor.dim() > 1 for tensor in layers.values())


def _another_distribution(
    run: Path | str, head: str, label: str, own: HeadDistribution, other: HeadDistribution
) -> RequestError:
    table = f'{{ action = "{head}", use = "{bare_name(other.use)}" }}'
    return RequestError(
        f"the policy of {run} has another distribution: what its last layer learnt means nothing to this one",
        received=f"{label}: {bare_name(other.use)} instead of {bare_name(own.use)}",
        expected="the same one",
        option="initialize_from",
        help=f'write distributions = [{table}] into [model], with use = "auto" where there is no such table',
    )


def _told_of_another_action(label: str, own: HeadDistribution, other: HeadDistribution, *, begins_anew: bool) -> str:
    was = f"{other.n_logits} numbers of {bare_name(other.use)} on a {other.space} there"
    now = f"{own.n_logits} of {bare_name(own.use)} on a {own.space} here"
    outcome = "begins anew" if begins_anew else "is taken over where its shapes fit"
    return f"policy: {label} {outcome}: it gave {was} and gives {now}"


def _told_of_options(label: str, own: HeadDistribution, other: HeadDistribution) -> list[str]:
    changed = own.changed_options(other)
    if not changed:
        return []
    there = ", ".join(f"{name} = {value}" for name, (_, value) in changed.items())
    here = ", ".join(f"{name} = {value}" for name, (value, _) in changed.items())
    return [f"policy: {label} reads the same weights with {here}; they learnt with {there}"]
