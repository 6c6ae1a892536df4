"""Blocks without parameters: shapes, joining, slicing, pooling, masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from maze_perception.block import BlockError, Mirror, PerceptionBlock, TensorDict
from maze_perception.options import ConcatenationOptions, FlattenOptions, GlobalAveragePoolingOptions, SliceOptions
from maze_runtime.models.masking import mask_logits, mask_logits_numpy
from maze_runtime.models.same_operations import same_operations


@same_operations
class Flatten(PerceptionBlock):
    """Joins trailing dimensions into one: (B, ..., *flattened) to (B, ..., D)."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: FlattenOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        shape = self.in_shapes[0]
        self._n_flat = options.num_flatten_dims or len(shape)
        if self._n_flat > len(shape):
            raise BlockError(
                f"Flatten cannot join {self._n_flat} dimensions of {self.in_keys[0]!r}",
                received=f"shape {shape}",
                expected=f"at least {self._n_flat} dimensions without the batch",
            )
        self._kept, self._size = shape[: len(shape) - self._n_flat], math.prod(shape[len(shape) - self._n_flat :])

    def forward(self, inputs: TensorDict) -> TensorDict:
        """A view where the memory allows it."""
        x = inputs[self.in_keys[0]]
        return {self.out_keys[0]: x.reshape(*x.shape[: x.dim() - self._n_flat], self._size)}

    def make_mirror(self) -> Mirror | None:
        """A reshape."""
        in_key, out_key, shape = self.in_keys[0], self.out_keys[0], (*self._kept, self._size)
        return lambda arrays: {out_key: arrays[in_key].reshape(-1, *shape)}


@same_operations
class Concatenation(PerceptionBlock):
    """Joins several tensors along one dimension."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: ConcatenationOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self._dim = options.dim
        first = self.in_shapes[0]
        for key, shape in zip(self.in_keys, self.in_shapes, strict=True):
            if len(shape) < -self._dim or _without(shape, self._dim) != _without(first, self._dim):
                raise BlockError(
                    f"Concatenation cannot join {key!r} with {self.in_keys[0]!r} along dimension {self._dim}",
                    received=f"shapes {shape} and {first}",
                    expected="equal sizes in every other dimension",
                    help="flatten them first",
                )

    def forward(self, inputs: TensorDict) -> TensorDict:
        """One tensor."""
        return {self.out_keys[0]: torch.cat([inputs[key] for key in self.in_keys], self._dim)}

    def make_mirror(self) -> Mirror | None:
        """np.concatenate."""
        in_keys, out_key, dim = self.in_keys, self.out_keys[0], self._dim
        return lambda arrays: {out_key: np.concatenate([arrays[key] for key in in_keys], axis=dim)}


def _without(shape: tuple[int, ...], dim: int) -> list[int]:
    sizes = list(shape)
    del sizes[dim]
    return sizes


@same_operations
class ActionMasking(PerceptionBlock):
    """Logits and a mask of as many entries to masked logits; inputs: logits, mask."""

    def __init__(self, in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        if len(self.in_shapes) != 2 or math.prod(self.in_shapes[0]) != math.prod(self.in_shapes[1]):
            raise BlockError(
                "ActionMasking needs logits and a mask with one entry a logit",
                received=", ".join(f"{k} {s}" for k, s in zip(self.in_keys, self.in_shapes, strict=True)),
                expected="two inputs of the same size",
            )
        self._reshape_mask = self.in_shapes[0] != self.in_shapes[1]

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Probability zero where the mask is zero."""
        logits, mask = inputs[self.in_keys[0]], inputs[self.in_keys[1]]
        if self._reshape_mask:
            mask = mask.reshape(logits.shape)
        return {self.out_keys[0]: mask_logits(logits, mask)}

    def make_mirror(self) -> Mirror | None:
        """Masks a copy."""
        logits_key, mask_key, out_key = *self.in_keys, self.out_keys[0]

        def run(arrays: dict[str, Any]) -> dict[str, Any]:
            logits = arrays[logits_key].copy()
            return {out_key: mask_logits_numpy(logits, arrays[mask_key].reshape(logits.shape))}

        return run


@same_operations
class GlobalAveragePooling(PerceptionBlock):
    """Averages trailing dimensions away."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: GlobalAveragePoolingOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        if len(self.in_shapes[0]) <= options.n_dims:
            raise BlockError(
                f"GlobalAveragePooling cannot average {options.n_dims} dimensions of {self.in_keys[0]!r}",
                received=f"shape {self.in_shapes[0]}",
                expected=f"more than {options.n_dims} dimensions without the batch",
            )
        self._dims = tuple(range(-options.n_dims, 0))

    def forward(self, inputs: TensorDict) -> TensorDict:
        """(B, C, *averaged) to (B, C)."""
        return {self.out_keys[0]: inputs[self.in_keys[0]].mean(self._dims)}

    def make_mirror(self) -> Mirror | None:
        """np.mean."""
        in_key, out_key, dims = self.in_keys[0], self.out_keys[0], self._dims
        return lambda arrays: {out_key: arrays[in_key].mean(dims)}


@same_operations
class Slice(PerceptionBlock):
    """Takes one position of one dimension, which disappears."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: SliceOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        shape = self.in_shapes[0]
        self._dim, self._index = options.dim, options.index
        if len(shape) < -self._dim or not -shape[self._dim] <= self._index < shape[self._dim]:
            raise BlockError(
                f"Slice has no position {self._index} in dimension {self._dim} of {self.in_keys[0]!r}",
                received=f"shape {shape}",
            )

    def forward(self, inputs: TensorDict) -> TensorDict:
        """A view."""
        return {self.out_keys[0]: inputs[self.in_keys[0]].select(self._dim, self._index)}

    def make_mirror(self) -> Mirror | None:
        """np.take."""
        in_key, out_key, dim, index = self.in_keys[0], self.out_keys[0], self._dim, self._index
        return lambda arrays: {out_key: arrays[in_key].take(index, axis=dim)}
