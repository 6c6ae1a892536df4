"""Graph attention (Veličković et al. 2018, equations 1 to 6), without dropout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from maze_blocks_graph.adjacency import AdjacencyBlock
from maze_blocks_graph.options import GraphAttentionOptions
from maze_perception.mirror import ACTIVATIONS
from maze_runtime.models.same_operations import same_operations


@same_operations
class AttentionLayer(nn.Module):
    """One layer of several heads, joined or averaged."""

    def __init__(self, n_features: int, out_features: int, num_heads: int, slope: float, *, average: bool, bias: bool):
        super().__init__()
        self.linear = nn.Linear(n_features, num_heads * out_features, bias=False)
        self.receiver = nn.Parameter(torch.empty(num_heads, out_features))
        self.sender = nn.Parameter(torch.empty(num_heads, out_features))
        nn.init.xavier_uniform_(self.receiver)
        nn.init.xavier_uniform_(self.sender)
        self.bias = nn.Parameter(torch.zeros(out_features if average else num_heads * out_features)) if bias else None
        self.num_heads, self._slope, self._average = num_heads, slope, average
        self.n_out = out_features if average else num_heads * out_features

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """(B, N, D) and (B, 1, N, N), true where node i does not see node j, to (B, N, n_out)."""
        h: Tensor = self.linear(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        # e_ij = LeakyReLU(a_r · W h_i + a_s · W h_j)
        receivers = (h * self.receiver[:, None]).sum(-1).unsqueeze(-1)
        senders = (h * self.sender[:, None]).sum(-1).unsqueeze(-2)
        scores = functional.leaky_relu(receivers + senders, self._slope)
        # α_ij = softmax_j(e_ij) over the neighbours j of i; h'_i = Σ_j α_ij W h_j
        out = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ h
        out = out.mean(1) if self._average else out.transpose(1, 2).flatten(2)
        return out if self.bias is None else out + self.bias


@same_operations
class GraphAttention(AdjacencyBlock):
    """Nodes attend to their neighbours, where the adjacency is not zero, and to themselves."""

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: GraphAttentionOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.layers = nn.ModuleList()
        n_features = self.n_features
        for index, size in enumerate(options.hidden_features):
            average = options.avg_last_head_attentions and index == len(options.hidden_features) - 1
            layer = AttentionLayer(
                n_features, size, options.num_heads, options.attention_alpha, average=average, bias=options.bias
            )
            self.layers.append(layer)
            n_features = layer.n_out
        self._activation = ACTIVATIONS[options.non_lin][0]

    def nodes(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """(B, N, D) and (B, N, N) to (B, N, H)."""
        itself = torch.eye(adjacency.shape[-1], dtype=torch.bool, device=x.device)
        hidden = ((adjacency == 0) & ~itself).unsqueeze(1)
        for layer in self.layers:
            x = self._activation(layer(x, hidden))
        return x
