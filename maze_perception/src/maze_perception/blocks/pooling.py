"""Pooling over a variable number of items, of which a mask says which exist."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from maze_perception.block import BlockError, PerceptionBlock, TensorDict
from maze_perception.options import MaskedGlobalPoolingOptions, Pooling
from maze_runtime.models.same_operations import same_operations


def pool(x: Tensor, mask: Tensor | None, pooling: Pooling, dim: int) -> Tensor:
    """Reduces one dimension over the items that exist; without any the result is zero.

    Args:
        x: (..., N, *rest), where N is dimension `dim`.
        mask: (..., N), zero where an item is absent; None: all exist.
        pooling: "mean", "sum" or "max".
        dim: negative, from the end of `x`.
    """
    if mask is None:
        return torch.amax(x, dim) if pooling == "max" else getattr(torch, pooling)(x, dim)
    exists = (mask != 0).reshape(*mask.shape, *(1,) * (-dim - 1))
    if pooling == "max":
        highest = torch.amax(x.masked_fill(~exists, -torch.inf), dim)
        return torch.where(exists.any(dim), highest, torch.zeros_like(highest))
    total = torch.where(exists, x, torch.zeros_like(x)).sum(dim)
    if pooling == "sum":
        return total
    return total / exists.sum(dim).clamp(min=1)


@same_operations
class MaskedGlobalPooling(PerceptionBlock):
    """Reduces one dimension of the first input over the items that the second input, a mask, lets through.

    (B, N, D) and (B, N) to (B, D) with `dim` = -2. Without a mask all items exist.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: MaskedGlobalPoolingOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_inputs("features, mask", 1, 2)
        self._masked = len(self.in_keys) == 2
        self._pooling, self._dim = options.pooling, options.dim
        shape = self.in_shapes[0]
        if len(shape) < -self._dim:
            raise BlockError(
                f"MaskedGlobalPooling cannot pool dimension {self._dim} of {self.in_keys[0]!r}",
                received=f"shape {shape}",
                expected=f"at least {-self._dim} dimensions without the batch",
            )
        if self._masked:
            self.require_shape(1, shape[: len(shape) + self._dim + 1], "one entry an item")

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Zero where the mask lets nothing through."""
        mask = inputs[self.in_keys[1]] if self._masked else None
        return {self.out_keys[0]: pool(inputs[self.in_keys[0]], mask, self._pooling, self._dim)}
