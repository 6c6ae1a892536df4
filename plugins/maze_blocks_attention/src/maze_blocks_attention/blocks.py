"""Attention blocks: between sets, and within one set or sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from maze_blocks_attention.heads import Heads
from maze_blocks_attention.options import MultiHeadAttentionOptions, SelfAttentionSeqOptions
from maze_perception.block import BlockError, TensorDict
from maze_perception.shape_normalization import ShapeNormalizationBlock
from maze_runtime.models.same_operations import same_operations


@same_operations
class MultiHeadAttention(ShapeNormalizationBlock):
    """Queries (B, Q, D) look at keys (B, K, E) and take their values (B, K, F): to (B, Q, embed_dim).

    Inputs: queries; or queries, keys that are the values too; or queries, keys, values. With `masked` the mask of the
    keys (B, K) is the last one.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: MultiHeadAttentionOptions,
    ) -> None:
        n_tensors = len(in_keys) - options.masked
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=(3,) * n_tensors + (2,) * options.masked)
        mask = ", mask" if options.masked else ""
        self.require_inputs(f"queries, keys, values{mask}", 1 + options.masked, 3 + options.masked)
        self._mask_key = self.in_keys[-1] if options.masked else None
        self._key_index, self._value_index = min(1, n_tensors - 1), n_tensors - 1
        features = [self.in_shapes[index][-1] for index in (0, self._key_index, self._value_index)]
        key_shape = self.in_shapes[self._key_index]
        self.require_shape(
            self._value_index,
            (*key_shape[:-1], features[-1]),
            f"one value a key of {self.in_keys[self._key_index]!r} {key_shape}",
        )
        if options.masked:
            meaning = f"one entry a key of {self.in_keys[self._key_index]!r} {key_shape}"
            self.require_shape(len(in_keys) - 1, key_shape[:-1], meaning)
        embed_dim = options.embed_dim or features[0]
        require_divisible(self, embed_dim, options.num_heads)
        self.heads = Heads(
            *features, embed_dim=embed_dim, out_features=embed_dim, num_heads=options.num_heads, bias=options.bias
        )

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, Q, D) queries to (B, Q, embed_dim)."""
        queries, keys, values = (inputs[self.in_keys[i]] for i in (0, self._key_index, self._value_index))
        mask = None if self._mask_key is None else inputs[self._mask_key]
        return {self.out_keys[0]: self.heads(queries, keys, values, mask)}


@same_operations
class SelfAttentionSeq(ShapeNormalizationBlock):
    """Items (B, N, D) look at each other: to (B, N, D). A second input is a mask (B, N).

    A masked item is not looked at and gives zeros.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: SelfAttentionSeqOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=(3, 2)[: len(in_keys)])
        self.require_inputs("items, mask", 1, 2)
        *_, n_features = shape = self.in_shapes[0]
        self._masked = len(self.in_keys) == 2
        if self._masked:
            self.require_shape(1, shape[:-1], "one entry an item")
        embed_dim = options.embed_dim or n_features
        require_divisible(self, embed_dim, options.num_heads)
        self._add_input = options.add_input_to_output
        self.heads = Heads(
            n_features,
            n_features,
            n_features,
            embed_dim=embed_dim,
            out_features=n_features,
            num_heads=options.num_heads,
            bias=options.bias,
        )

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, N, D) to (B, N, D)."""
        x = inputs[self.in_keys[0]]
        mask = inputs[self.in_keys[1]] if self._masked else None
        attended = self.heads(x, x, x, mask)
        if self._add_input:
            attended = x + attended
        if mask is not None:
            attended = torch.where((mask != 0).unsqueeze(-1), attended, torch.zeros_like(attended))
        return {self.out_keys[0]: attended}


def require_divisible(block: ShapeNormalizationBlock, embed_dim: int, num_heads: int) -> None:
    """Refuse an embedding that cannot be divided among the heads.

    Raises:
        BlockError: names the block and both sizes.
    """
    if embed_dim % num_heads:
        raise BlockError(
            f"{type(block).__name__} cannot divide an embedding of {embed_dim} among {num_heads} heads",
            received=f"{block.in_keys[0]!r} of shape {block.in_shapes[0]}",
            expected=f"embed_dim as a multiple of {num_heads}",
        )
