"""Message passing between nodes and edges (Battaglia et al. 2018, algorithm 1, without a global vector)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maze_blocks_graph.options import MessagePassingOptions
from maze_perception.block import TensorDict
from maze_perception.blocks.dense import Layers
from maze_perception.shape_normalization import ShapeNormalizationBlock
from maze_runtime.models.same_operations import same_operations


@same_operations
class MessagePassing(ShapeNormalizationBlock):
    """Nodes (B, N, D) and links (B, E, 2), pairs of node numbers (source, target), to nodes (B, N, H).

    A third input gives the edges features (B, E, F), a fourth is a mask of the edges (B, E). A second output gives the
    edges' features (B, E, H). A link with a number that is no node is no edge: it sends nothing and gives zeros.
    """

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: MessagePassingOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=(3, 3, 3, 2)[: len(in_keys)])
        self.require_inputs("nodes, links, edges, mask", 2, 4, max_outputs=2)
        *leading, n_links, _ = self.in_shapes[1]
        self.require_shape(1, (*leading, n_links, 2), "source and target of each link")
        n_edge_features = 0
        if len(self.in_keys) > 2:
            n_edge_features = self.in_shapes[2][-1]
            self.require_shape(2, (*leading, n_links, n_edge_features), "features of each link")
        if len(self.in_keys) > 3:
            self.require_shape(3, (*leading, n_links), "one entry a link")
        n_features, units = self.in_shapes[0][-1], options.hidden_units
        self.edge_networks, self.node_networks = nn.ModuleList(), nn.ModuleList()
        for _ in range(options.n_rounds):
            self.edge_networks.append(Layers(n_edge_features + 2 * n_features, units, options.non_lin, bias=True))
            self.node_networks.append(Layers(n_features + units[-1], units, options.non_lin, bias=True))
            n_features = n_edge_features = units[-1]
        self._aggregation = options.aggregation
        self.numbered = {self.in_keys[1]: self.in_shapes[0][-2]}

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """The features of nodes, and of edges where they are asked for."""
        nodes, links, *more = (inputs[key] for key in self.in_keys)
        n_nodes = nodes.shape[1]
        exists = ((links >= 0) & (links < n_nodes)).all(-1)
        if len(more) == 2:
            exists = exists & (more[1] != 0)
        source, target = links.clamp(0, n_nodes - 1).long().unbind(-1)
        # what is no edge sends to a node behind the last, which is dropped
        receiver = torch.where(exists, target, n_nodes)
        edges = more[0] if more else nodes.new_zeros(*links.shape[:2], 0)
        for edge_network, node_network in zip(self.edge_networks, self.node_networks, strict=True):
            # e'_k = φᵉ(e_k, h_source, h_target)
            edges = edge_network(torch.cat([edges, _take(nodes, source), _take(nodes, target)], -1))
            # h'_i = φᵛ(h_i, ρ({e'_k : target_k = i}))
            nodes = node_network(torch.cat([nodes, self._join(edges, receiver, n_nodes)], -1))
        outputs = {self.out_keys[0]: nodes}
        if len(self.out_keys) == 2:
            outputs[self.out_keys[1]] = torch.where(exists.unsqueeze(-1), edges, torch.zeros_like(edges))
        return outputs

    def _join(self, edges: Tensor, receiver: Tensor, n_nodes: int) -> Tensor:
        """(B, E, H) messages to (B, N, H), zeros for nodes without any."""
        index = receiver.unsqueeze(-1).expand_as(edges)
        shape = (edges.shape[0], n_nodes + 1, edges.shape[2])
        if self._aggregation == "max":
            highest = edges.new_full(shape, -torch.inf).scatter_reduce(1, index, edges, "amax")
            return torch.where(highest.isinf(), torch.zeros_like(highest), highest)[:, :n_nodes]
        joined = edges.new_zeros(shape).scatter_add(1, index, edges)
        if self._aggregation == "mean":
            one = index[..., :1]
            counts = edges.new_zeros(*shape[:2], 1).scatter_add(1, one, torch.ones_like(edges[..., :1]))
            joined = joined / counts.clamp(min=1.0)
        return joined[:, :n_nodes]


def _take(nodes: Tensor, index: Tensor) -> Tensor:
    """(B, N, D) nodes and (B, E) numbers to (B, E, D)."""
    return nodes.gather(1, index.unsqueeze(-1).expand(-1, -1, nodes.shape[2]))
