"""Blocks without parameters that pick, repeat, encode or multiply: several positions, one-hots, correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from maze_perception.block import BlockError, PerceptionBlock, TensorDict
from maze_perception.options import (
    CorrelationOptions,
    MultiIndexSlicingOptions,
    OneHotOptions,
    RepeatToMatchOptions,
)
from maze_runtime.models.same_operations import same_operations


@same_operations
class Correlation(PerceptionBlock):
    """Products of two feature tensors, (B, ..., D) and (B, ..., D), summed over the last dimension.

    Sizes of 1 are stretched to the other's, and the input with fewer dimensions is repeated, as NumPy does with the
    shapes of one sample: a context (D,) beside items (N, D) gives one number an item, (N,).
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: CorrelationOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_inputs("two feature tensors", 2)
        self._reduce = options.reduce
        first, second = self.in_shapes
        try:
            rank = len(np.broadcast_shapes(first, second))
        except ValueError as error:
            raise BlockError(
                f"Correlation cannot multiply {self.in_keys[0]!r} with {self.in_keys[1]!r}",
                received=f"shapes {first} and {second}",
                expected="equal sizes in each dimension counted from the end, or 1",
            ) from error
        if rank == 0 or (self._reduce and first[-1:] != second[-1:]):
            raise BlockError(
                f"Correlation cannot sum over the features of {self.in_keys[0]!r} and {self.in_keys[1]!r}",
                received=f"shapes {first} and {second}",
                expected="equal last dimensions",
            )
        self._n_inserted = (rank - len(first), rank - len(second))

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, ..., D) twice to (B, ...), or to (B, ..., D) without `reduce`."""
        aligned = []
        for key, shape, n_inserted in zip(self.in_keys, self.in_shapes, self._n_inserted, strict=True):
            x = inputs[key]
            n_leading = x.dim() - len(shape)
            aligned.append(x.reshape(*x.shape[:n_leading], *(1,) * n_inserted, *x.shape[n_leading:]))
        product = aligned[0] * aligned[1]
        return {self.out_keys[0]: product.sum(-1) if self._reduce else product}


@same_operations
class RepeatToMatch(PerceptionBlock):
    """Repeats the first input along one dimension to the second input's size: (B, D) beside (B, N, E) to (B, N, D)."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: RepeatToMatchOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_inputs("what is repeated, what it shall match", 2)
        self._dim = options.dim
        shape, reference = self.in_shapes
        self._insert = len(shape) == len(reference) - 1
        fits = len(reference) >= -self._dim and (
            self._insert or (len(shape) == len(reference) and shape[self._dim] == 1)
        )
        if not fits:
            raise BlockError(
                f"RepeatToMatch cannot repeat {self.in_keys[0]!r} along dimension {self._dim} of {self.in_keys[1]!r}",
                received=f"shapes {shape} and {reference}",
                expected=f"one dimension less than the second input, or size 1 in dimension {self._dim}",
            )
        self._n_repeats = reference[self._dim]

    def forward(self, inputs: TensorDict) -> TensorDict:
        """A view: the repeated tensor takes no memory."""
        x = inputs[self.in_keys[0]]
        if self._insert:
            x = x.unsqueeze(self._dim)
        sizes = [-1] * x.dim()
        sizes[self._dim] = self._n_repeats
        return {self.out_keys[0]: x.expand(sizes)}


@same_operations
class MultiIndexSlicing(PerceptionBlock):
    """Takes several positions of one dimension, in the order given."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: MultiIndexSlicingOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        shape, self._dim = self.in_shapes[0], options.dim
        size = shape[self._dim] if len(shape) >= -self._dim else 0
        missing = [index for index in options.indices if not -size <= index < size]
        if missing:
            raise BlockError(
                f"MultiIndexSlicing has no position {missing[0]} in dimension {self._dim} of {self.in_keys[0]!r}",
                received=f"shape {shape}",
                expected=f"a dimension {self._dim} with positions {list(options.indices)}",
            )
        indices = torch.tensor([index % size for index in options.indices])
        self._indices: Tensor
        self.register_buffer("_indices", indices, persistent=False)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, ..., N, ...) to (B, ..., len(indices), ...)."""
        return {self.out_keys[0]: inputs[self.in_keys[0]].index_select(self._dim, self._indices)}


@same_operations
class OneHot(PerceptionBlock):
    """Class numbers (B, ...) to one-hot vectors (B, ..., n_classes)."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: OneHotOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        self._classes: Tensor
        self.register_buffer("_classes", torch.arange(options.n_classes), persistent=False)
        self.numbered = {self.in_keys[0]: options.n_classes}

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Zeros for numbers that are no class."""
        return {self.out_keys[0]: (inputs[self.in_keys[0]].unsqueeze(-1) == self._classes).float()}
