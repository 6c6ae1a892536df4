"""Graph convolutions (Kipf and Welling 2017, equation 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_blocks_graph.adjacency import AdjacencyBlock
from maze_blocks_graph.options import GraphConvolutionOptions
from maze_perception.mirror import ACTIVATIONS
from maze_runtime.models.same_operations import same_operations


@same_operations
class GraphConvolution(AdjacencyBlock):
    """Every layer mixes the nodes' features with their neighbours', then passes a linear layer and an activation."""

    self_importance: Tensor

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: GraphConvolutionOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        sizes = (self.n_features, *options.hidden_features)
        n_layers = len(options.hidden_features)
        self.linear = nn.ModuleList(nn.Linear(sizes[i], sizes[i + 1], bias=options.bias) for i in range(n_layers))
        importance = torch.full((n_layers,), options.node_self_importance)
        if options.trainable_node_self_importance:
            self.self_importance = nn.Parameter(importance)
        else:
            self.register_buffer("self_importance", importance, persistent=False)
        self._normalization = options.normalization
        self._activation = ACTIVATIONS[options.non_lin][0]

    def nodes(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """(B, N, D) and (B, N, N) to (B, N, hidden_features[-1])."""
        identity = torch.eye(adjacency.shape[-1], dtype=x.dtype, device=x.device)
        adjacency = adjacency.to(x.dtype)
        for layer, importance in zip(self.linear, self.self_importance.unbind(), strict=True):
            assert isinstance(layer, nn.Linear)
            weights = normalized(adjacency + importance * identity, self._normalization)
            # σ(D^-½ (A + s I) D^-½ H W + b)
            mixed = torch.matmul(weights, torch.matmul(x, layer.weight.T))
            x = self._activation(mixed if layer.bias is None else mixed + layer.bias)
        return x


def normalized(adjacency: Tensor, normalization: str) -> Tensor:
    """(B, N, N) weights divided by degrees, the sums of rows; zeros where a degree is not positive."""
    if normalization == "none":
        return adjacency
    degrees = adjacency.sum(-1)
    # the inner `where` keeps the gradient of the root finite
    exists = degrees > 0
    safe = torch.where(exists, degrees, torch.ones_like(degrees))
    if normalization == "row":
        return adjacency * (exists / safe).unsqueeze(-1)
    roots = exists * safe.rsqrt()
    return roots.unsqueeze(-1) * adjacency * roots.unsqueeze(-2)
