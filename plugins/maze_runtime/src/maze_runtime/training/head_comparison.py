"""Whether the heads of a run mean what those of another one do whose weights it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
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
    own_heads = head_distributions(model)
    anew: set[str] = set()
    lines: list[str] = []
    for key in getattr(model, "distributions", {}):
        for head, own in own_heads.get(str(key), {}).items():
            other = theirs.get(str(key), {}).get(head)
            if other is None:
                continue
            label = f"head {head!r}" if len(own_heads) == 1 else f"head {head!r} of policy key {key!r}"
            pair = _Pair(run, head, label, own, other, _tensors_of(model, key, head, fitting))
            anew |= pair.tensors_anew
            lines += pair.told()
    return anew, lines


@attrs.frozen
class _Pair:
    """A head here and there.

    Attributes:
        layers: tensors that would be taken over and give the logits of this head alone, by name; None: the model does
            not say which.
    """

    run: Path | str
    head: str
    label: str
    own: HeadDistribution
    other: HeadDistribution
    layers: Mapping[str, Tensor] | None

    @property
    def is_taken(self) -> bool:
        """Whether what a head learnt comes along, for a bias alone is nothing learnt."""
        if self.layers is None:
            return self.own.n_logits == self.other.n_logits
        return any(tensor.dim() > 1 for tensor in self.layers.values())

    @property
    def is_another_action(self) -> bool:
        own, other = self.own, self.other
        return own.n_logits != other.n_logits or (own.kind != other.kind and own.space != other.space)

    @property
    def tensors_anew(self) -> set[str]:
        """Those whose shapes agree by chance."""
        begins_anew = self.is_another_action if self.is_taken else self.own.kind != self.other.kind
        return set(self.layers or ()) if begins_anew else set()

    def told(self) -> list[str]:
        """What the user has to know.

        Raises:
            RequestError: the weights would be read as what they are not.
        """
        if not self.is_taken:
            return []
        if self.is_another_action:
            return [self._of_another_action()]
        if self.own.kind != self.other.kind:
            raise self._another_distribution()
        return self._of_options()

    def _another_distribution(self) -> RequestError:
        there, here = bare_name(self.other.use), bare_name(self.own.use)
        table = f'{{ action = "{self.head}", use = "{there}" }}'
        return RequestError(
            f"the policy of {self.run} has another distribution: what its last layer learnt means nothing to this one",
            received=f"{self.label}: {there} instead of {here}",
            expected="the same one",
            option="initialize_from",
            help=f'write distributions = [{table}] into [model], with use = "auto" where there is no such table',
        )

    def _of_another_action(self) -> str:
        own, other = self.own, self.other
        was = f"{other.n_logits} numbers of {bare_name(other.use)} on a {other.space} there"
        now = f"{own.n_logits} of {bare_name(own.use)} on a {own.space} here"
        outcome = "is taken over where its shapes fit" if self.layers is None else "begins anew"
        return f"policy: {self.label} {outcome}: it gave {was} and gives {now}"

    def _of_options(self) -> list[str]:
        changed = self.own.changed_options(self.other)
        if not changed:
            return []
        there = ", ".join(f"{name} = {value}" for name, (_, value) in changed.items())
        here = ", ".join(f"{name} = {value}" for name, (value, _) in changed.items())
        return [f"policy: {self.label} reads the same weights with {here}; they learnt with {there}"]


def _tensors_of(model: Any, key: Any, head: str, fitting: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Those of the modules that give the logits of a head and nothing else; None where the model does not say which."""
    paths = model.head_layers(key).get(head) if isinstance(model, NamesHeadLayers) else None
    if paths is None:
        return None
    return {name: own for name, own in fitting.items() if name.startswith(tuple(f"{path}." for path in paths))}
