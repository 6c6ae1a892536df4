"""Self-attention over the positions of a feature map."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from maze_blocks_conv.feature_map import FeatureMapBlock
from maze_blocks_conv.options import SelfAttentionConvOptions
from maze_runtime.models.same_operations import same_operations


@same_operations
class SelfAttentionConv(FeatureMapBlock):
    """Every position attends to every other: (B, C, H, W) to (B, C, H, W). Source: Zhang et al. 2019, equations 1-3.

    Unlike the paper's, values are embedded once, in C channels.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: SelfAttentionConvOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        n_channels = self.channels_first_shape[0]
        embed_dim = options.embed_dim or max(1, n_channels // 8)
        self.query = nn.Conv2d(n_channels, embed_dim, 1, bias=options.bias)
        self.key = nn.Conv2d(n_channels, embed_dim, 1, bias=options.bias)
        self.value = nn.Conv2d(n_channels, n_channels, 1, bias=options.bias)
        self.gamma = nn.Parameter(torch.zeros(())) if options.add_input_to_output else None

    def features(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C, H, W)."""
        # one head: ONNX knows attention with a dimension of heads only
        query, key, value = (layer(x).flatten(2).mT.unsqueeze(1) for layer in (self.query, self.key, self.value))
        # o_j = Σ_i softmax_i(q_j · k_i) v_i, without the scale of transformers
        attended = functional.scaled_dot_product_attention(query, key, value, scale=1.0)
        attended = attended.squeeze(1).mT.reshape(x.shape)
        return attended if self.gamma is None else x + self.gamma * attended
