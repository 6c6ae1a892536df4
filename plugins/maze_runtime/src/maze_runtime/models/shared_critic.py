"""One value network for the states of a structured environment, whoever's turn it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import torch
from torch import Tensor, nn

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.same_operations import same_operations
from maze_runtime.models.tensor_dict import TensorDict

Shape = tuple[int, ...]

WHO = "@policy_key"
"""The input that says whose turn it is: a one-hot of the policy key. No observation may have an @ in its name."""


@attrs.frozen
class ReadTogether:
    """Observations of a policy key that networks read together, items and their mask for one.

    Attributes:
        observations: in an order that is the same for every key.
        blocks: what reads them, to what that reads; empty: one observation that is read alone.
    """

    observations: tuple[str, ...]
    blocks: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen
class SharedInputs:
    """The union of what policy keys read.

    Attributes:
        shapes: name to shape of every input but `WHO`. Observations of one name and shape are one input where all keys
            that read them do so alike and together with the same ones; others are called `name@key`.
        sources: policy key to {input: its own observation}.
    """

    shapes: Mapping[str, Shape]
    sources: Mapping[PolicyKey, Mapping[str, str]]

    @classmethod
    def of(
        cls, shapes: Mapping[PolicyKey, Mapping[str, Shape]], groups: Mapping[PolicyKey, Sequence[ReadTogether]]
    ) -> SharedInputs:
        """Join the observations of all policy keys, given as policy key to {name: shape}.

        Args:
            groups: policy key to what it reads; one observation stands in one of them, or is left out.
        """
        apart = _different(shapes, groups)
        read = {key: {name for group in own for name in group.observations} for key, own in groups.items()}
        sources = {
            key: {f"{name}@{key}" if name in apart else name: name for name in own if name in read[key]}
            for key, own in shapes.items()
        }
        joined = {name: tuple(shapes[key][source]) for key, own in sources.items() for name, source in own.items()}
        return cls(joined, sources)

    @property
    def readers(self) -> dict[str, tuple[PolicyKey, ...]]:
        """Input to the policy keys that read it."""
        return {name: tuple(key for key, own in self.sources.items() if name in own) for name in self.shapes}


def _different(
    shapes: Mapping[PolicyKey, Mapping[str, Shape]], groups: Mapping[PolicyKey, Sequence[ReadTogether]]
) -> set[str]:
    """Observations that are not the same for all policy keys that read them, and all that is read with such ones."""
    kinds: dict[tuple[str, str], list[tuple[ReadTogether, list[Shape]]]] = {}
    for key, own in groups.items():
        for group in own:
            kind = group, [tuple(shapes[key][name]) for name in group.observations]
            for name in _names(group):
                known = kinds.setdefault(name, [])
                if kind not in known:
                    known.append(kind)
    found: set[tuple[str, str]] = set()
    more = {name for name, known in kinds.items() if len(known) > 1}
    while more - found:
        found |= more
        more = {name for one in found for group, _ in kinds[one] for name in _names(group)}
    return {name for kind, name in found if kind == "observation"}


def _names(group: ReadTogether) -> set[tuple[str, str]]:
    return {*(("observation", name) for name in group.observations), *(("block", name) for name in group.blocks)}


@same_operations
class SharedStateCritic(nn.Module):
    """Values the state from the observation of whoever decides; what others would see is zero.

    Args:
        network: maps every input of `inputs` and `WHO` (B, K) to {"value": (B, 1)}.
        inputs: who observes what.

    Attributes:
        shapes: of what the network reads, `WHO` included.
    """

    def __init__(self, network: nn.Module, inputs: SharedInputs) -> None:
        super().__init__()
        self.network = network
        self._inputs = inputs
        self._index = {key: index for index, key in enumerate(inputs.sources)}
        self._one_hots: Tensor
        self.register_buffer("_one_hots", torch.eye(len(self._index)), persistent=False)
        self.shapes: dict[str, Shape] = {**inputs.shapes, WHO: (len(self._index),)}

    def forward(self, observations: Mapping[PolicyKey, TensorDict]) -> TensorDict:
        """Encoded observations (B_k, ...) by policy key to {"value": (B, 1)}: one key's rows behind the other's."""
        n_rows = {key: len(next(iter(own.values()))) for key, own in observations.items()}
        inputs = {
            name: _joined([self._input(name, shape, key, n_rows[key], own) for key, own in observations.items()])
            for name, shape in self._inputs.shapes.items()
        }
        inputs[WHO] = _joined([self._one_hots[self._index[key]].expand(n, -1) for key, n in n_rows.items()])
        value: TensorDict = self.network(inputs)
        return value

    def _input(self, name: str, shape: Shape, policy_key: PolicyKey, n_rows: int, observation: TensorDict) -> Tensor:
        source = self._inputs.sources[policy_key].get(name)
        if source is not None:
            return observation[source]
        return torch.zeros((n_rows, *shape), device=self._one_hots.device)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
