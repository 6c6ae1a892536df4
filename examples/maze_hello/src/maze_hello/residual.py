"""A perception block: a torch module from a dict of tensors to a dict of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_hello.options import ResidualOptions


class Residual(nn.Module):
    """y = x + W₂ tanh(W₁ x + b₁) + b₂ on the last dimension, with any leading dimensions.

    Args:
        in_keys: the one tensor it reads.
        out_keys: the one tensor it gives, of the same shape.
        in_shapes: shape of one sample of the input.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: ResidualOptions,
    ) -> None:
        super().__init__()
        self.in_keys, self.out_keys = tuple(in_keys), tuple(out_keys)
        self.in_shapes = tuple(tuple(shape) for shape in in_shapes)
        n_features = self.in_shapes[0][-1]
        self.inner = nn.Linear(n_features, options.hidden_units)
        self.outer = nn.Linear(options.hidden_units, n_features)

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """(..., D) to (..., D)."""
        x = inputs[self.in_keys[0]]
        return {self.out_keys[0]: x + self.outer(torch.tanh(self.inner(x)))}

    def out_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of the input."""
        return self.in_shapes
