"""Blocks of a fixed rank that serve a single observation, a batch, and time × batch alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from maze_perception.block import BlockError, PerceptionBlock, TensorDict


class ShapeNormalizationBlock(PerceptionBlock):
    """Flattens all leading dimensions to one batch dimension before, and restores them after.

    Args:
        in_num_dims: rank the block works on, batch dimension included, the same for every input.

    Subclasses write `normalized_forward`. Every input must have the same leading dimensions.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        *,
        in_num_dims: int,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self._in_num_dims = in_num_dims
        for key, shape in zip(self.in_keys, self.in_shapes, strict=True):
            if len(shape) < in_num_dims - 1:
                raise BlockError(
                    f"{type(self).__name__} cannot read {key!r}",
                    received=f"shape {shape}",
                    expected=f"at least {in_num_dims - 1} dimension{'s' * (in_num_dims != 2)} without the batch",
                )

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """Inputs of rank `in_num_dims` to outputs with the same batch dimension."""
        raise NotImplementedError

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Outputs have the leading dimensions of the inputs."""
        first = inputs[self.in_keys[0]]
        if first.dim() == self._in_num_dims:
            return self.normalized_forward(inputs)
        leading = first.shape[: first.dim() - self._in_num_dims + 1]
        flat = {key: self._flatten(inputs[key], len(leading)) for key in self.in_keys}
        outputs = self.normalized_forward(flat)
        return {key: tensor.reshape(*leading, *tensor.shape[1:]) for key, tensor in outputs.items()}

    def _flatten(self, tensor: Tensor, n_leading: int) -> Tensor:
        return tensor.reshape(math.prod(tensor.shape[:n_leading]), *tensor.shape[n_leading:])
