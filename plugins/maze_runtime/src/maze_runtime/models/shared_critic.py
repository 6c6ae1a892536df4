"""One value network for the states of a structured environment, whoever's turn it is."""

from __future__ import annotations

from collections.abc import Mapping

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
class SharedInputs:
    """The union of what policy keys observe.

    Attributes:
        shapes: name to shape of every input but `WHO`. Observations of one name and shape are one input; where the
            shapes differ the inputs are called `name@key`.
        sources: policy key to {input: its own observation}.
    """

    shapes: Mapping[str, Shape]
    sources: Mapping[PolicyKey, Mapping[str, str]]

    @classmethod
    def of(cls, shapes: Mapping[PolicyKey, Mapping[str, Shape]]) -> SharedInputs:
        """Join the observations of all policy keys, given as policy key to {name: shape}."""
        kinds: dict[str, set[Shape]] = {}
        for own in shapes.values():
            for name, shape in own.items():
                kinds.setdefault(name, set()).add(tuple(shape))
        sources = {
            key: {name if len(kinds[name]) == 1 else f"{name}@{key}": name for name in own}
            for key, own in shapes.items()
        }
        joined = {name: tuple(shapes[key][source]) for key, own in sources.items() for name, source in own.items()}
        return cls(joined, sources)


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
