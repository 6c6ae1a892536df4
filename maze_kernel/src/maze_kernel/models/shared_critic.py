"""One value network for the states of a structured environment, whoever's turn it is."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import torch
from torch import Tensor, nn

from maze_kernel.env.contract import PolicyKey

TensorDict = dict[str, Tensor]
Shape = tuple[int, ...]

WHO = "policy_key"
"""The input that says whose turn it is: a one-hot of the policy key."""


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

    def forward(self, policy_key: PolicyKey, observation: TensorDict) -> TensorDict:
        """Encoded observations (B, ...) of one policy key to {"value": (B, 1)}."""
        some = next(iter(observation.values()))
        own, n_rows = self._inputs.sources[policy_key], len(some)
        inputs = {
            name: observation[own[name]] if name in own else torch.zeros((n_rows, *shape), device=some.device)
            for name, shape in self._inputs.shapes.items()
        }
        inputs[WHO] = self._one_hots[self._index[policy_key]].expand(n_rows, -1)
        value: TensorDict = self.network(inputs)
        return value
