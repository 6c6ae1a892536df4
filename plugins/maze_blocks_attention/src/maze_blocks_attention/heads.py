"""Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2), safe under any mask."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from maze_runtime.models.same_operations import same_operations


@same_operations
class Heads(nn.Module):
    """Projections of queries, keys and values, attention, and a projection of its result.

    Args:
        query_features: of the queries.
        key_features: of the keys.
        value_features: of the values.
        embed_dim: of all heads together; a multiple of `num_heads`.
        out_features: of the result.
        num_heads: heads.
        bias: whether the projections add a bias.
    """

    def __init__(
        self,
        query_features: int,
        key_features: int,
        value_features: int,
        *,
        embed_dim: int,
        out_features: int,
        num_heads: int,
        bias: bool,
    ) -> None:
        super().__init__()
        self.query = nn.Linear(query_features, embed_dim, bias=bias)
        self.key = nn.Linear(key_features, embed_dim, bias=bias)
        self.value = nn.Linear(value_features, embed_dim, bias=bias)
        self.out = nn.Linear(embed_dim, out_features, bias=bias)
        self.num_heads = num_heads

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """(B, Q, ·) queries, (B, K, ·) keys and values, (B, K) mask to (B, Q, out_features).

        A query whose keys are all hidden gets what zeros project to: the bias of the output.
        """
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer, x in ((self.query, queries), (self.key, keys), (self.value, values))
        )
        # softmax(q kᵀ / √d) v
        if mask is None:
            attended = functional.scaled_dot_product_attention(q, k, v)
        else:
            visible = (mask != 0)[:, None, None, :]
            any_visible = visible.any(-1, keepdim=True)
            # where nothing is visible everything is looked at and forgotten: the softmax of nothing is NaN
            attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=visible | ~any_visible)
            attended = torch.where(any_visible, attended, torch.zeros_like(attended))
        return self.out(attended.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]
