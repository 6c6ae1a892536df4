"""Blocks of a fixed rank that serve a single observation, a batch, and time × batch alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from maze_perception.block import BlockError, PerceptionBlock, TensorDict


class ShapeNormalizationBlock(PerceptionBlock):
    """Flattens all leading dimensions to one batch dimension before, and restores them after.

    Args:
        in_num_dims: rank the block works on, batch dimension included: one for all inputs, or one an input.

    Subclasses write `normalized_forward`. Every input must have the same leading dimensions.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        *,
        in_num_dims: int | Sequence[int],
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        ranks = (in_num_dims,) * len(self.in_keys) if isinstance(in_num_dims, int) else tuple(in_num_dims)
        if not ranks or len(ranks) != len(self.in_keys):
            raise BlockError(
                f"{type(self).__name__} takes another number of inputs",
                received=f"inputs {list(self.in_keys)}",
                expected=f"{len(ranks)} inputs" if ranks else "at least one input",
            )
        self._ranks = dict(zip(self.in_keys, ranks, strict=True))
        self._first_key, self._first_rank = self.in_keys[0], ranks[0]
        first = self.in_shapes[0]
        for key, shape, rank in zip(self.in_keys, self.in_shapes, ranks, strict=True):
            if len(shape) < rank - 1:
                raise BlockError(
                    f"{type(self).__name__} cannot read {key!r}",
                    received=f"shape {shape}",
                    expected=f"at least {rank - 1} dimension{'s' * (rank != 2)} without the batch",
                )
            if shape[: len(shape) - rank + 1] != first[: len(first) - self._first_rank + 1]:
                raise BlockError(
                    f"{type(self).__name__} cannot read {key!r} beside {self._first_key!r}",
                    received=f"shapes {shape} and {first}",
                    expected=f"equal sizes before the last {rank - 1} and {self._first_rank - 1} dimensions",
                )

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """Inputs of rank `in_num_dims` to outputs with the same batch dimension."""
        raise NotImplementedError

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Outputs have the leading dimensions of the inputs."""
        first = inputs[self._first_key]
        n_leading = first.dim() - self._first_rank + 1
        if n_leading == 1:
            return self.normalized_forward(inputs)
        leading = first.shape[:n_leading]
        flat = {key: self._flatten(inputs[key], rank) for key, rank in self._ranks.items()}
        outputs = self.normalized_forward(flat)
        return {key: tensor.reshape(*leading, *tensor.shape[1:]) for key, tensor in outputs.items()}

    def _flatten(self, tensor: Tensor, rank: int) -> Tensor:
        n_leading = tensor.dim() - rank + 1
        return tensor.reshape(math.prod(tensor.shape[:n_leading]), *tensor.shape[n_leading:])
